"""Real workers and beats of Celery on a real Redis."""
