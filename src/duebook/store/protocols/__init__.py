"""What a transaction offers, by what it is for; store/base.py puts it together."""
