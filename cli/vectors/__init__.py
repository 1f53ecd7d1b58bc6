"""Golden vectors: files of inputs with the numbers that a method must give, read and compared, one module a schema."""
