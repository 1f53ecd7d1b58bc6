"""Convert files of reference cases of older formats: python scripts/convert_reference_cases OLD.json NEW.json

Three formats are understood: rows of turns with the parameters of GiGPO or HGPO, named cases with inputs and
hyperparameters, and losses on batches of tokens. The tables in `names` map their inputs, hyperparameters and results to
turncredit's. A name without a counterpart stays as it is, and `turncredit verify` refuses the case by that name.
"""
