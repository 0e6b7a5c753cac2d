"""The tables of the project."""

from django.db import models


class Order(models.Model):
    """An order of a customer."""

    item = models.TextField()
    is_paid = models.BooleanField(default=False)
