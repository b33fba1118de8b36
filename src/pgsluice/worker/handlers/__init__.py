"""How handlers are declared, what they return, how their payloads are decoded, and how messages are sent to them."""
