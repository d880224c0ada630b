//! Elements of kept tensors, and the HTML page.

use samebits_ledger::diff::Report;
use samebits_ledger::html;
use samebits_ledger::record::{Event, Phase};

use crate::program::{Pair, Run, rewrite};

/// Returns the report of two runs that kept a differing output.
fn kept(dtype: &str, shape: &[u64], a: &[u8], b: &[u8]) -> Report {
    let run = Run::default();
    let pair = Pair::of(&run, &run);
    for (path, digest, bytes) in [(&pair.a, 1, a), (&pair.b, 2, b)] {
        let name = format!("kept-{digest}.bin");
        std::fs::write(path.with_file_name(&name), bytes).expect("it can be written");
        let mut events = run.events();
        let Event::Op(it) = &mut events[2] else { panic!("an operation") };
        it.outputs[0].digest.as_mut().expect("a digest").0 = digest;
        it.outputs[0].dtype = dtype.to_owned();
        it.outputs[0].shape = shape.to_vec();
        it.outputs[0].file = Some(name);
        rewrite(path, 0, run.header(), events);
    }
    pair.diff()
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn elements_that_differ() {
    let up = |value: f32, ulps: u32| f32::from_bits(value.to_bits() + ulps);
    let a = [1.0, 2.0, f32::NAN, 4.0, 0.0, -1.0];
    let b = [1.0, up(2.0, 1), -f32::NAN, up(4.0, 5), -0.0, f32::NAN];
    let report = kept("f32", &[2, 3], &bytes_of(&a), &bytes_of(&b));
    let [tensor] = &report.ranks[0].tensors[..] else { panic!("{report}") };
    assert_eq!((tensor.elements, tensor.unequal, tensor.most_ulps), (6, 4, Some(5)));
    let histogram: Vec<(&str, u64)> =
        tensor.histogram.iter().map(|it| (it.ulps.as_str(), it.elements)).collect();
    assert_eq!(histogram, [("0", 1), ("1", 1), ("4-7", 1), ("NaN", 1)]);
    assert_eq!(tensor.first[0].index, [0, 1]);
    assert_eq!(tensor.first[0].a, "2.0 (0x40000000)");
    assert_eq!(tensor.first[1].index, [1, 0]);
    assert_eq!(tensor.first[1].ulps, Some(5));
    assert!(report.to_string().contains("output 0: 4 of 6 elements of f32 differ, by up to 5 ulp"));
}

#[test]
fn elements_of_other_types() {
    for (dtype, size, a, b, shown, ulps) in [
        ("f16", 2, 0x3c00u64, 0x3c02, "1.0 (0x3c00)", Some(2)),
        ("bf16", 2, 0x3f80, 0xbf80, "1.0 (0x3f80)", Some(0x7f00)),
        ("f64", 8, 0, 1, "0.0 (0x0000000000000000)", Some(1)),
        ("i8", 1, 0xff, 1, "-1", None),
        ("i64", 8, 1, 2, "1", None),
        ("u64", 8, u64::MAX, 0, "18446744073709551615", None),
        ("bool", 1, 1, 0, "1", None),
    ] {
        let bytes = |bits: u64| bits.to_le_bytes()[..size].to_vec();
        let report = kept(dtype, &[], &bytes(a), &bytes(b));
        let [tensor] = &report.ranks[0].tensors[..] else { panic!("{report}") };
        assert_eq!((tensor.unequal, tensor.most_ulps), (1, ulps), "{dtype}");
        assert_eq!(tensor.first[0].a, shown);
        assert_eq!(tensor.histogram.is_empty(), ulps.is_none());
    }
}

fn page(report: &Report) -> String {
    let mut page = Vec::new();
    html::write(report, &mut page).expect("memory takes it");
    String::from_utf8(page).expect("text")
}

#[test]
fn the_page_needs_nothing_else() {
    let run = Run { steps: 30, ..Run::default() };
    let other = Run {
        perturbed: vec![(9, Phase::Forward, "layers.1", "relu")],
        environment: vec![("host", "<script>alert(1)</script> & \"quotes\"")],
        ..run.clone()
    };
    let page = page(&Pair::of(&run, &other).diff());
    assert!(!page.contains("<script") && !page.contains("http") && !page.contains("url("));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;quotes&quot;"));
    assert!(page.contains("prefers-color-scheme: dark"));
    for class in ["equal", "origin", "content"] {
        assert!(page.contains(&format!("<rect class=\"{class}\"")), "{class}");
    }
    assert_eq!(page.matches("<rect class=\"mark\"").count(), 1);
}

#[test]
fn the_page_shows_elements() {
    let page = page(&kept("f32", &[2], &bytes_of(&[1.0, 2.0]), &bytes_of(&[1.0, 2.5])));
    assert!(page.contains("Elements of output 0") && page.contains("class=\"bar\""), "{page}");
    assert!(page.contains("2.5 (0x40200000)"), "{page}");
}
