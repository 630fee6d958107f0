"""The tool: a plain function. The model sees its types and its docstring."""

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
