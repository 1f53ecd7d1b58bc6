"""Convert files of reference cases of the older forms: python -m turnwise.cli.convert_vectors OLD.json NEW.json

Understood are rows of turns (with the parameters of GiGPO or HGPO), named cases with inputs and hyperparameters, and
losses on batches of tokens. The tables of `names` say which input, hyperparameter and figure is which of ours. What has
no counterpart keeps its name, and `turnwise verify` refuses the case by that name.
"""
