"""What developers of Duebook run: derived files, pins with hashes, advisories, licences."""
