"""Where the relay publishes events; each knows one kind of receiver."""
