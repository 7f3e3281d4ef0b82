"""Writes digit.h: image NUMBER of MNIST's test set, or any 28 x 28 that you put in its place.

python digit.py 92 > digit.h
"""

import sys
from pathlib import Path

from blrc import datasets

number = int(sys.argv[1])
test = datasets.mnist(Path(__file__).parent.parent / "mnist" / "data", train=False)
print(f"/* Image {number} of MNIST's test set, made by digit.py: 28 rows of 28 pixels, 0 black to 255 white. */")
print("#include <stdint.h>\n")
print(f"#define DIGIT_LABEL {test.labels[number]} /* what it is */\n")
print("static const uint8_t digit[784] = {")
for row in test.images[number, 0]:
    print(f"    {', '.join(map(str, row))},")
print("};")
