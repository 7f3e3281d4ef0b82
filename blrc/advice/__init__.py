"""What to do with a thing that is not what blrc takes: objects by their class, files by their first bytes.

Everything here takes what was given and returns text, or raises a `BlrcError` of one line. It imports neither torch nor
any framework: classes are recognised by name, files without unpickling.
"""
