"""What else models a table, with options by validation rows, then learnt again from training and validation rows.

| name | what | least standard deviation |
|---|---|---|
| `independent` | each column by itself: a kernel density, or shares of values | its bandwidth |
| `mixture` | full, tied or diagonal Gaussians × categories, by EM | √ridge |
| `kde` | a kernel density: Gaussian kernels × those of Aitchison and Aitken | its bandwidth |
| `learnspn` | LearnSPN of deeprob-kit: k-means and RDC, Gaussian and categorical leaves | a floor that is added |
| `flow` | a neural spline flow of zuko | none: validation rows stop it |

Without discrete columns `mixture` is scikit-learn's `GaussianMixture`, and `kde` its `KernelDensity` with one kernel more.
Bandwidths, ridges and floors are in units of a column's standard deviation, and validation chooses them.
"""
