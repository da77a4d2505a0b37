"""The views of the shop."""

from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from duebook.integrations.django import book
from shop.models import Order
from shop.tasks import confirm


@csrf_exempt
@require_POST
def accept(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():  # the order and its confirmation: both or neither
        order = Order.objects.create(email=request.POST["email"])
        run = book.enqueue(confirm, {"order": order.pk}, connection=connection)
        if not order.email:
            raise ValueError("an order needs an address")  # rolls both back
    return JsonResponse({"order": order.pk, "run": run.id}, status=202)


def show(_: HttpRequest, number: int) -> JsonResponse:
    order = get_object_or_404(Order, pk=number)
    return JsonResponse({"email": order.email, "confirmed": order.confirmed})
