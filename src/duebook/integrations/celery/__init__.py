"""Celery beat on Duebook: `beat_schedule` as schedules in the database; touches nothing else."""
