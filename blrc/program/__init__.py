"""Define the program: integers only, the compiler's second intermediate form, and what every target implements.

`ops` holds a record for each kind of op. `program` is the list of ops with its constants, `legal` says which programs
are legal, and `reference` computes what a program means. `head` turns scores into log-probabilities in integers,
`program_file` reads and writes programs, and `vectors` records inputs with all values that the reference gives. May
import: `blrc.errors`, `blrc.net`, `blrc.reading` and `blrc.store`; nothing here needs torch.
"""
