"""Celery beat on Duebook: stores `beat_schedule` as schedules in the database; changes nothing
else."""
