"""The tool: a plain function. Its types and its docstring are what the model is told of it."""

COLOURS = ("red", "blue", "green", "black", "white", "brown", "grey", "pink")
THINGS = ("lamp", "chair", "table", "cup", "plate", "rug", "shelf", "clock", "vase", "stool")
PRICES = {
    f"{colour} {thing}": 10 + (37 * row + 53 * column + 7 * row * column) % 90
    for row, colour in enumerate(COLOURS)
    for column, thing in enumerate(THINGS)
}


def price(item: str) -> str:
    """The price of an item of the shop.

    Args:
        item: the item, such as "red lamp"
    """
    return str(PRICES[item])
