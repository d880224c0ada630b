//! Reverse-mode differentiation, layers and optimisers over samebits tensors.
