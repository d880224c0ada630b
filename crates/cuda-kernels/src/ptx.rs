//! The committed PTX, embedded.

macro_rules! families {
    ($($name:literal),* $(,)?) => {
        /// Name and text of every family.
        pub(crate) const FAMILIES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../ptx/", $name, ".ptx")))),*];
    };
}

families![
    "bincount",
    "conv",
    "conv_tiles",
    "ctc",
    "elementwise",
    "embedding",
    "grid_sample",
    "interpolate",
    "linalg",
    "loss",
    "matmul",
    "norm",
    "optim",
    "padding",
    "pooling",
    "random",
    "recurrent",
    "reduce",
    "scan",
    "scatter",
    "sort",
    "sparse",
];

/// The text of a family.
pub(crate) fn text(family: &str) -> Option<&'static str> {
    FAMILIES.iter().find(|(name, _)| *name == family).map(|(_, text)| *text)
}
