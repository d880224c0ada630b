//! The keys of convolutions in choice files.

use proptest::prelude::*;
use samebits_conv_autotune::{ChoiceFile, ConvKey, ConvPass, Error};
use samebits_tensor_core::Determinism::*;
use samebits_tensor_core::{DType, ops::ConvParams};

#[test]
fn a_convolution_key_reads_back_as_it_was_written() {
    for pass in ConvPass::ALL {
        let params =
            ConvParams { stride: vec![2, 1], padding: vec![0, 3], dilation: vec![1, 2], groups: 4 };
        let key = ConvKey::new(pass, DType::F64, &[1, 8, 9, 10], &[12, 2, 3, 3], &params, RunToRun);
        let text = toml::to_string(&key).unwrap();
        assert!(text.contains(&format!("pass = \"{pass}\"")), "{text}");
        assert!(text.contains("dtype = \"f64\""), "{text}");
        assert_eq!(toml::from_str::<ConvKey>(&text).unwrap(), key);
    }
}

/// Earlier versions had another word.
#[test]
fn the_former_name_of_the_input_gradient_is_read() {
    let params = ConvParams::padded(1, 0);
    let key =
        ConvKey::new(ConvPass::InputGrad, DType::F32, &[1, 1, 9], &[1, 1, 3], &params, Portable);
    let text = toml::to_string(&key).unwrap();
    assert!(text.starts_with("pass = \"input-gradient\""), "{text}");
    let former = text.replace("input-gradient", "data-gradient");
    assert_eq!(toml::from_str::<ConvKey>(&former).unwrap(), key);
    let unknown = text.replace("input-gradient", "bias-gradient");
    let error = toml::from_str::<ConvKey>(&unknown).unwrap_err().to_string();
    assert!(error.contains("unknown pass \"bias-gradient\""), "{error}");
}

/// Reads `bytes`. Any error is typed and names a line of the file or the whole file.
fn reads(bytes: &[u8]) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("choices.toml");
    std::fs::write(&path, bytes).unwrap();
    let lines = bytes.iter().filter(|&&b| b == b'\n').count() + 1;
    match ChoiceFile::<ConvKey>::read(&path) {
        Ok(_) => {}
        Err(Error::Damaged { line, .. } | Error::Version { line, .. }) => {
            prop_assert!((1..=lines).contains(&line), "{line} of {lines}");
        }
        Err(other) => prop_assert!(false, "{other}"),
    }
    Ok(())
}

const PIECES: [&str; 26] = [
    "format = 1\n",
    "numerics = 2\n",
    "device = \"a\"\nlibrary = \"b\"\n",
    "[[choice]]\n",
    "algorithm = \"direct\"\n",
    "[choice.key]\npass = \"forward\"\ndtype = \"f32\"\nlevel = \"Portable\"\n",
    "input = [1, 1, 9]\nweight = [1, 1, 3]\nstride = [1]\npadding = [0]\ndilation = [1]\n",
    "groups = 1\n",
    "groups = 99999999999999999999999999999999999999\n",
    "groups = -1\n",
    "groups = 1e400\n",
    "groups = 0x7fffffffffffffffffff\n",
    "input = [9223372036854775807, 9223372036854775807]\n",
    "[choice.candidates]\n",
    "direct = { time_ns = 1, workspace = 0 }\n",
    "direct = { time_ns = 9223372036854775807, workspace = 9223372036854775807 }\n",
    "[end]\nchoices = 1\n",
    "[end]\nchoices = 18446744073709551616\n",
    "\"\"\"",
    "'''\n",
    "\"\\uD800\"",
    "\u{feff}",
    "\u{2028}",
    "\r\n",
    "\r",
    "\0",
];

/// Returns a part of a choice file, or something hostile in its place.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let not_utf8 = vec![&b"\xc0\x80"[..], b"\xed\xa0\x80", b"\xf5\xbf", b"\xe2\x82"];
    let repeated = prop::sample::select(vec!["[", "{", "a.", "[a.", "'", "\n", "a=[", "x"]);
    prop_oneof![
        6 => prop::sample::select(PIECES.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        1 => (repeated, 1usize..2000).prop_map(|(text, times)| text.repeat(times).into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..64),
        1 => prop::sample::select(not_utf8).prop_map(<[u8]>::to_vec),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        reads(&bytes)?;
    }

    #[test]
    fn any_pieces_of_files_are_read_or_refused(
        pieces in prop::collection::vec(piece(), 0..24),
        cut in 0usize..64,
    ) {
        let mut bytes = pieces.concat();
        bytes.truncate(bytes.len().saturating_sub(cut));
        reads(&bytes)?;
    }
}
