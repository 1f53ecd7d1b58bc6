"""Convert files of reference cases of the older forms: python -m turnwise.cli.convert_vectors OLD.json NEW.json

Three forms are understood: rows of turns with the parameters of GiGPO or HGPO, named cases with inputs and
hyperparameters, and losses on batches of tokens. The tables in `names` map their inputs, hyperparameters and figures to
turnwise's. A name without a counterpart stays as it is, and `turnwise verify` refuses the case by that name.
"""
