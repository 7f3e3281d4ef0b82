"""Read what ``torch.save`` writes, without torch: a zip file of stored members, plain data and tensors as NumPy arrays.

In: the bytes of a file. Out: dictionaries, lists, numbers, texts and arrays that are views of those bytes. Nothing in
the file is executed, and what it makes this process allocate is bounded by its size. Imports nothing of blrc but
errors.
"""
