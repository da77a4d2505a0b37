"""The background tasks of the shop; Duebook's app imports every `tasks.py` when the site starts."""

from duebook import Context, cron
from duebook.integrations.django import book
from shop.models import Order


@book.task(retry=3, timeout="1m")
def confirm(ctx: Context, order: int) -> str:
    found = Order.objects.get(pk=order)
    found.confirmed = True
    found.save()
    ctx.log.info("confirmed to %s", found.email)
    return found.email


@book.task(schedule=cron("0 7 * * *"), isolation="process")
def count_orders() -> int:
    return Order.objects.count()
