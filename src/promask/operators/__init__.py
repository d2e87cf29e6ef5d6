"""Linear maps of MRI and their adjoints: Fourier transforms, coil encoding, wavelets, finite differences."""
