"""Where the relay publishes events; each module handles one kind of receiver."""
