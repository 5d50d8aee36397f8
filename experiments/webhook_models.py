"""Addresses that hear of a project's events, and what was sent to them."""

from __future__ import annotations

from django.db import models

from labsite.accounts.models import Project, User


class Webhook(models.Model):
    """An address that hears of a project's events. Each delivery is signed with `secret` (HMAC-SHA-256)."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="webhooks")
    url = models.URLField(max_length=500)
    secret = models.CharField(max_length=100)
    events = models.JSONField(default=list)
    active = models.BooleanField(default=True)
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.url


class DeliveryState(models.TextChoices):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class WebhookDelivery(models.Model):
    """One event for one webhook. PENDING → DELIVERED | FAILED (after the last try). `key` makes an event unique."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    event = models.CharField(max_length=40)
    key = models.CharField(max_length=100)
    payload = models.JSONField()
    state = models.CharField(max_length=10, choices=DeliveryState.choices, default=DeliveryState.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField(null=True)
    response_status = models.PositiveSmallIntegerField(null=True)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    delivered_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "webhook deliveries"
        constraints = [models.UniqueConstraint(fields=["webhook", "key"], name="delivery_once")]
        # the sender looks for what is due
        indexes = [
            models.Index(fields=["next_try_at"], condition=models.Q(state="pending"), name="delivery_due"),
        ]

    def __str__(self) -> str:
        return f"{self.event} to {self.webhook}"
