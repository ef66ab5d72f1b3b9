"""What a GPU offers: its limits, its instructions, where each lane holds their operands, and which nests they fit."""
