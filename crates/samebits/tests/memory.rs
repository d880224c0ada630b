//! Draws of more numbers than there is memory for.

use samebits::{Device, Error, manual_seed, rand, randn, randperm};

#[test]
fn draws_that_do_not_fit_are_errors_and_draw_nothing() {
    manual_seed(1);
    let expected = rand(&[3]).unwrap().to_vec::<f32>().unwrap();
    manual_seed(1);
    let n = 1 << 50;
    let missing = |op, bytes| Error::OutOfMemory { op, device: Device::Cpu, bytes };
    assert_eq!(rand(&[n]).unwrap_err(), missing("rand", 4 * n));
    assert_eq!(randn(&[n / 4, 4]).unwrap_err(), missing("randn", 4 * n));
    assert_eq!(randperm(n).unwrap_err(), missing("randperm", 8 * n));
    for (op, drawn) in [
        ("rand", rand(&[1 << 40, 1 << 40])),
        ("randn", randn(&[usize::MAX, 2])),
        ("randperm", randperm(usize::MAX)),
    ] {
        let text = drawn.unwrap_err().to_string();
        assert!(text.starts_with(&format!("{op}: ")) && text.ends_with("too many elements"));
    }
    assert_eq!(rand(&[3]).unwrap().to_vec::<f32>().unwrap(), expected);
}
