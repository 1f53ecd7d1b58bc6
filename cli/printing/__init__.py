"""What the program prints: tables with keys, lines that wrap at words, logs, live displays and pictures."""
