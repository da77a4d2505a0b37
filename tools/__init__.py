"""Tools for developers of Duebook: derived files, pinned hashes, advisories, licences."""
