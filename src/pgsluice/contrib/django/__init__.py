"""Queues in Django projects; needs `pip install 'pgsluice[django]'`.

Add `pgsluice.contrib.django` to `INSTALLED_APPS`, and run `manage.py migrate`. Declare handlers in an app:

    from pgsluice.contrib.django.app import DjangoApp

    app = DjangoApp(name="shop")

    @app.handler("orders", mode="transaction")
    def pack(order: Order) -> None:
        Parcel.objects.create(order_id=order.id)  # commits with the acknowledgement

`pack.send(order)` sends in the transaction of `atomic()`. `manage.py pgsluice_worker` runs the handlers.
"""
