"""Read without torch what ``torch.save`` writes: a zip file of stored members that holds plain data and tensors.

The bytes of a file come in. Dictionaries, lists, numbers, texts and NumPy arrays that are views of those bytes go out.
Nothing in the file is executed, and the memory that it can make this process allocate is bounded by its size. May
import: `blrc.errors`.
"""
