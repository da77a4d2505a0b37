-- The tables of django-celery-beat 2.9.0, with periodic tasks that it wrote.
CREATE TABLE "django_celery_beat_crontabschedule" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    "minute" varchar(240) NOT NULL,
    "hour" varchar(96) NOT NULL,
    "day_of_week" varchar(64) NOT NULL,
    "day_of_month" varchar(124) NOT NULL,
    "month_of_year" varchar(64) NOT NULL,
    "timezone" varchar(63) NOT NULL);
INSERT INTO django_celery_beat_crontabschedule VALUES (
    1, '0', '9', '1-5', '*', '*', 'Europe/Brussels'
);
INSERT INTO django_celery_beat_crontabschedule VALUES (
    2, '30', '2', 'mon', '1,15', '*', 'UTC'
);
INSERT INTO django_celery_beat_crontabschedule VALUES (
    3, '*/20', '22-2', 'fri-mon', '*', '*', 'UTC'
);
CREATE TABLE "django_celery_beat_intervalschedule" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    "every" integer NOT NULL,
    "period" varchar(24) NOT NULL);
INSERT INTO django_celery_beat_intervalschedule VALUES (
    1, 15, 'minutes'
);
INSERT INTO django_celery_beat_intervalschedule VALUES (
    2, 500, 'microseconds'
);
CREATE TABLE "django_celery_beat_clockedschedule" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    "clocked_time" datetime NOT NULL);
INSERT INTO django_celery_beat_clockedschedule VALUES (
    1, '2026-12-24 12:00:00'
);
INSERT INTO django_celery_beat_clockedschedule VALUES (
    2, '2025-12-24 12:00:00'
);
CREATE TABLE "django_celery_beat_solarschedule" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    "event" varchar(24) NOT NULL,
    "latitude" decimal NOT NULL,
    "longitude" decimal NOT NULL);
INSERT INTO django_celery_beat_solarschedule VALUES (
    1, 'dawn_astronomical', 50, 4
);
CREATE TABLE "django_celery_beat_periodictask" ("id" integer NOT NULL PRIMARY KEY AUTOINCREMENT,
    "name" varchar(200) NOT NULL UNIQUE,
    "task" varchar(200) NOT NULL,
    "args" text NOT NULL,
    "kwargs" text NOT NULL,
    "queue" varchar(200) NULL,
    "exchange" varchar(200) NULL,
    "routing_key" varchar(200) NULL,
    "expires" datetime NULL,
    "enabled" bool NOT NULL,
    "last_run_at" datetime NULL,
    "total_run_count" integer unsigned NOT NULL CHECK ("total_run_count" >= 0),
    "date_changed" datetime NOT NULL,
    "description" text NOT NULL,
    "crontab_id" integer NULL REFERENCES "django_celery_beat_crontabschedule" ("id") DEFERRABLE INITIALLY DEFERRED,
    "interval_id" integer NULL REFERENCES "django_celery_beat_intervalschedule" ("id") DEFERRABLE INITIALLY DEFERRED,
    "solar_id" integer NULL REFERENCES "django_celery_beat_solarschedule" ("id") DEFERRABLE INITIALLY DEFERRED,
    "one_off" bool NOT NULL,
    "start_time" datetime NULL,
    "priority" integer unsigned NULL CHECK ("priority" >= 0),
    "headers" text NOT NULL,
    "clocked_id" integer NULL REFERENCES "django_celery_beat_clockedschedule" ("id") DEFERRABLE INITIALLY DEFERRED,
    "expire_seconds" integer unsigned NULL CHECK ("expire_seconds" >= 0));
INSERT INTO django_celery_beat_periodictask VALUES (
    1, 'Daily digest', 'mail.digest', '["staff"]', '{}', 'mail', NULL, NULL, NULL, 1, NULL, 0, '2026-11-18 06:07:00.206052', 'Mail to all staff', 1, NULL, NULL, 0, NULL, NULL, '{}', NULL, 3600
);
INSERT INTO django_celery_beat_periodictask VALUES (
    2, 'both days', 'books.close', '[]', '{"month": true}', NULL, NULL, NULL, NULL, 1, NULL, 0, '2026-11-18 06:07:00.231076', '', 2, NULL, NULL, 0, NULL, NULL, '{}', NULL, NULL
);
INSERT INTO django_celery_beat_periodictask VALUES (
    3, 'sync', 'sync.run', '[]', '{}', NULL, NULL, NULL, NULL, 0, NULL, 0, '2026-11-18 06:07:00.318118', '', NULL, 1, NULL, 0, NULL, 5, '{"a": 1}', NULL, NULL
);
INSERT INTO django_celery_beat_periodictask VALUES (
    4, 'fast', 'sync.run', '[]', '{}', NULL, NULL, NULL, NULL, 1, NULL, 0, '2026-11-18 06:07:00.353156', '', NULL, 2, NULL, 0, NULL, NULL, '{}', NULL, NULL
);
INSERT INTO django_celery_beat_periodictask VALUES (
    5, 'once', 'a.b', '[]', '{}', NULL, NULL, NULL, NULL, 1, NULL, 0, '2026-11-18 06:07:00.433234', '', NULL, NULL, NULL, 1, NULL, NULL, '{}', 1, NULL
);
INSERT INTO django_celery_beat_periodictask VALUES (
    6, 'old', 'a.b', '[]', '{}', NULL, NULL, NULL, NULL, 1, NULL, 0, '2026-11-18 06:07:00.448471', '', NULL, NULL, NULL, 1, NULL, NULL, '{}', 2, NULL
);
INSERT INTO django_celery_beat_periodictask VALUES (
    7, 'dawn', 'a.b', '[]', '{}', NULL, NULL, NULL, NULL, 1, NULL, 0, '2026-11-18 06:07:00.467992', '', NULL, NULL, 1, 0, NULL, NULL, '{}', NULL, NULL
);
INSERT INTO django_celery_beat_periodictask VALUES (
    8, 'wraps', 'a.b', '[]', '{}', NULL, NULL, NULL, NULL, 1, NULL, 0, '2026-11-18 06:07:00.478790', '', 3, NULL, NULL, 0, '2027-01-01 00:00:00', NULL, '{}', NULL, NULL
);
