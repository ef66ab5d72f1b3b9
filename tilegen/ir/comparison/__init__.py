"""Two kernels or two results beside each other: are they one computation, and how far apart may numbers be?"""
