"""The URLs of the site."""

from django.urls import path

from shop.views import accept, show

urlpatterns = [path("orders", accept), path("orders/<int:number>", show)]
