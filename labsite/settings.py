"""The lab's settings, all from the environment or the lab's home.

`DATABASE_URL` and `REDIS_URL` name real servers. Unset, they are those of the embedded servers that
`manage.py lab` runs in LAB_HOME; this module starts none.
"""

from __future__ import annotations

import os
from pathlib import Path

from labsite.database_url import database_settings
from labsite.home import kept_secret, lab_home, read_json
from labsite.rate_limits import chosen_limits

BASE_DIR = Path(__file__).resolve().parent.parent
LAB_HOME = lab_home()
# Files of recorded traffic, each by its hash.
LAB_TRACES = LAB_HOME / "traces"


def env_list(name: str, default: str = "") -> list[str]:
    return [item.strip() for item in os.environ.get(name, default).split(",") if item.strip()]


# Services --------------------------------------------------------------------------------------------------
_embedded = read_json(LAB_HOME / "services.json") or {}
DATABASE_URL: str = os.environ.get("DATABASE_URL") or _embedded.get("DATABASE_URL", "postgresql:///lab")
REDIS_URL: str = os.environ.get("REDIS_URL") or _embedded.get("REDIS_URL", "redis://127.0.0.1:6379/0")
# What a node on another machine is told to connect to; the same server as REDIS_URL, by a name it can reach.
LAB_BROKER_PUBLIC_URL: str = os.environ.get("LAB_BROKER_PUBLIC_URL") or REDIS_URL
LAB_URL: str = os.environ.get("LAB_URL", "http://127.0.0.1:8000").rstrip("/")

DATABASES = {"default": database_settings(DATABASE_URL)}

# Security --------------------------------------------------------------------------------------------------
DEBUG = os.environ.get("LAB_DEBUG") == "1"
SECRET_KEY = os.environ.get("SECRET_KEY") or kept_secret(LAB_HOME, "secret_key")
ALLOWED_HOSTS = env_list("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env_list("CSRF_TRUSTED_ORIGINS")
_https = os.environ.get("LAB_HTTPS") == "1"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _https else None
SECURE_HSTS_SECONDS = 31_536_000 if _https else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _https
CSRF_FAILURE_VIEW = "django.views.csrf.csrf_failure"
# Defaults, and what they count, are in labsite.rate_limits; as `user=3000/minute,anonymous=off`, or `off`.
RATE_LIMITS = chosen_limits(os.environ.get("LAB_RATE_LIMITS", ""))
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
CONTENT_SECURITY_POLICY = {
    "default-src": "'self'",
    "script-src": "'self'",
    # Charts size their elements through style attributes.
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data: blob:",
    "connect-src": "'self'",
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
}

# Webhooks may go to addresses of this machine and of private networks: for a lab whose operators are trusted with them.
LAB_WEBHOOK_PRIVATE = os.environ.get("LAB_WEBHOOK_PRIVATE") == "1"

# Application -----------------------------------------------------------------------------------------------
ROOT_URLCONF = "labsite.urls"
ASGI_APPLICATION = "labsite.asgi.application"
AUTH_USER_MODEL = "accounts.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "labsite.accounts.admin_config.LabAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "ninja",
    "labsite",
    "labsite.accounts",
    "hardware",
    "experiments",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "labsite.security.content_security_policy",
    "labsite.api_errors.shape_api_errors",
    "labsite.accounts.origin.note_origin",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "labsite.throttle.ThrottleMiddleware",
    "labsite.api_parameters.SingleParametersMiddleware",
    "labsite.accounts.preferences.FollowPerson",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/accounts/login/"
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.ScryptPasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

# Files: served by WhiteNoise from where they lie, without a collecting step --------------------------------
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

# Celery: Postgres is the truth, so messages are cheap to lose and no result is kept ------------------------
CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_DEFAULT_QUEUE = "control"
CELERY_TASK_IGNORE_RESULT = True
CELERY_RESULT_BACKEND = None
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TIMEZONE = TIME_ZONE
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_SCHEDULE = {
    "place-runs": {"task": "experiments.tasks.place_runs", "schedule": 2.0, "options": {"expires": 4.0}},
    "reap": {"task": "experiments.tasks.reap", "schedule": 2.0, "options": {"expires": 4.0}},
    "send-webhooks": {"task": "experiments.tasks.send_webhooks", "schedule": 2.0, "options": {"expires": 4.0}},
    "predict-runs": {"task": "experiments.tasks.predict_runs", "schedule": 5.0, "options": {"expires": 10.0}},
    "forget-deliveries": {
        "task": "experiments.tasks.forget_deliveries",
        "schedule": 3600.0,
        "options": {"expires": 600.0},
    },
    "purge-deleted": {"task": "experiments.tasks.purge_deleted", "schedule": 3600.0, "options": {"expires": 600.0}},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": os.environ.get("LAB_LOG_LEVEL", "INFO")},
    "loggers": {"django": {"level": "INFO"}, "httpx": {"level": "WARNING"}},
}
