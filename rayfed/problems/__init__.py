"""Problems: what clients minimise, as stacked kernels; one file, one problem."""
