"""Read modules as other people write them: layers are recognised by the values that they compute with, not by class.

A module and samples come in; captured layers with their tensors go out. The module runs under `tape`, which sees every
tensor operation, whoever called it and in whatever spelling. `rules` say what each operation makes of `values`. `emit`
names the layers that the output needs, and `agreement` compares them with the module. `replay` runs the module again
where an export is compared with it. Imports capture's other modules, kinds and the net.
"""
