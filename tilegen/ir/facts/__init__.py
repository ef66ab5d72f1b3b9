"""What follows from an expression or an equation as it stands, without a solver."""
