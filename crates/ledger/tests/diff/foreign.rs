//! Ledgers of other recorders.

use samebits_ledger::diff::{Cause, Report};

use crate::program::Pair;

/// A dump of `DebugMode.debug_string()` with modules, an in-place draw into uninitialised memory
/// and several results.
const DUMP: &str = "\
    [nn.Mod] Linear
      aten::t(t: f32[2, 3])  ->  t: f32[3, 2]  # {'input_hash': ((1.5913079865276814,), {}), 'hash': 1.5913079865276814}
      aten::addmm(t: f32[2], t: f32[4, 3], t: f32[3, 2])  ->  t: f32[4, 2]  # {'input_hash': ((0.4692140817642212, 12.0, 1.5913079865276814), {}), 'hash': 0.8635963201522827}

    # File: train.py:7 in step, code: y = torch.dropout(y)
    aten::empty_like(t: f32[4, 2])  ->  t: f32[4, 2]
    aten::bernoulli_.float(t: f32[4, 2])  ->  t: f32[4, 2]  # {'input_hash': ((6730768.0,), {}), 'hash': 5.0}
    aten::mul.Tensor(t: f32[4, 2], t: f32[4, 2])  ->  t: f32[4, 2]  # {'input_hash': ((0.8635963201522827, 5.0), {}), 'hash': 0.5}
    aten::topk(t$5: f32[4, 2], 1)  ->  ('t$6: f32[4, 1]', 't$7: i64[4, 1]')  # {'input_hash': ((0.5, None), {}), 'hash': (0.25, 3.0)}
    aten::ones_like(t: f32[], pin_memory=False)  ->  t: f32[]  # {'input_hash': ((0.5,), {'pin_memory': None}), 'hash': 1.0}
    torch.add(t$5: f32[4, 2], t$5: f32[4, 2])  ->  t$8: f32[4, 2]
      aten::add.Tensor(t$5: f32[4, 2], t$5: f32[4, 2], alpha=2)  ->  t$8: f32[4, 2]  # {'input_hash': ((0.5, 0.5), {'alpha': None}), 'hash': 1.5}
      aten::cat(['t: f32[2, 2]', 't: f32[2, 2]'])  ->  t: f32[4, 2]  # {'input_hash': (([1.0, nan],), {}), 'hash': 0.75}";

fn dumps(a: &str, b: &str) -> Pair {
    let pair = Pair::empty();
    std::fs::write(&pair.a, a).expect("it can be written");
    std::fs::write(&pair.b, b).expect("it can be written");
    pair
}

#[track_caller]
fn edited(text: &str, from: &str, to: &str) -> Report {
    assert!(text.contains(from), "{from}");
    dumps(text, &text.replacen(from, to, 1)).diff()
}

#[test]
fn dumps_of_debug_mode() {
    let report = dumps(DUMP, DUMP).diff();
    assert!(report.equal, "{report}");
    assert_eq!(report.ranks[0].counts.compared, 9);
    // Uninitialised memory and object ids differ from run to run.
    assert!(edited(DUMP, "6730768.0", "1.0").equal);
    assert!(edited(DUMP, "t$5: f32[4, 2], t$5", "t$9: f32[4, 2], t$9").equal);

    let report = edited(DUMP, "'hash': 0.8635963201522827", "'hash': 0.8635963201522828");
    assert_eq!(report.cause, Some(Cause::Operation), "{report}");
    assert!(report.sentence.starts_with("Operation `aten::addmm` of `Linear`"), "{report}");
    let first = report.ranks[0].first.as_ref().and_then(|first| first.a.as_ref());
    assert_eq!(first.map(|place| place.sequence), Some(3), "the line's number");

    let report = edited(DUMP, "(0.4692140817642212,", "(0.5,");
    assert!(
        report.sentence.contains("input 0 of operation `aten::addmm`")
            || report.sentence.contains("Input 0 of operation `aten::addmm`"),
        "{report}"
    );
    let report = edited(DUMP, "(0.25, 3.0)", "(0.25, 4.0)");
    assert_eq!(
        report.ranks[0].first.as_ref().map(|first| first.differences[0].what.as_str()),
        Some("output 1")
    );
    let report = edited(DUMP, "alpha=2", "alpha=3");
    assert_eq!(report.cause, Some(Cause::Call), "{report}");
    let report = edited(DUMP, "[1.0, nan]", "[1.0, inf]");
    assert!(!report.equal, "{report}");
    // An argument after a multi-byte character.
    assert!(edited(DUMP, "addmm(t: ", "addmm(\u{e4}t: ").cause.is_some());
    let line = DUMP.lines().nth(6).expect("a line");
    let report = edited(DUMP, &format!("{line}\n"), "");
    assert_eq!(report.cause, Some(Cause::Missing), "{report}");
}

#[test]
fn broken_dumps() {
    let without =
        DUMP.lines().map(|line| line.split("  # {").next().unwrap_or(line)).collect::<Vec<_>>();
    for (text, problem) in [
        (without.join("\n"), "holds no hashes: record it under"),
        ("some notes\n".to_owned(), "no log of DebugMode: nothing in it tells of a call"),
        (DUMP.replace("(0.25, 3.0)", "(0.25, 3.0, 4.0)"), "line 9: 3 hashes of 2 tensors"),
        (DUMP.replace("'hash': 0.5}", "'hash': half}"), "line 8: expected a hash, found `half`"),
    ] {
        let error = dumps(DUMP, &text).try_diff().expect_err(problem).to_string();
        assert!(error.contains(problem), "{error}");
    }
}

/// Calls of a compiled module: a Triton kernel with its hashes, a redistribution, and lines that
/// describe no call.
const COMPILED: &str = "\
    [nn.Mod (compile)] L['self'].net
      aten::ones([3], device=cpu)  ->  t: f32[3]  # {'hash': 4607182418800017408}
      [triton] triton_poi_fused_0(in_ptr0=t$1: f32[3], out_ptr0=t: f32[3, 2], xnumel=3)
      # pre-kernel hashes: {in_ptr0: 4607182418800017408, out_ptr0: 0}
      # post-kernel hashes: {in_ptr0: 4607182418800017408, out_ptr0: 77}

    [triton] triton_red_fused_1(in_out_ptr0=t: f32[3])
    # post-kernel hashes: {in_out_ptr0: 5}

    redistribute_input [implicit] (0, trace: S(0)->R)
    -> output: [R]
    [record function] step
    torch.add(t: f32[4, 2], 1)  ->  torch.return_types.max(
values='t: f32[3]')
    aten::sum(t: f32[3])  ->  t: f32[]  # {'hash': nan}";

/// Returns the same in the form of `DebugMode.save_logs()`.
fn compiled_as_json() -> String {
    let scalar = |value: &str| format!(r#"{{"type":"scalar","value":{value}}}"#);
    let dict = |items: &[(&str, String)]| {
        let items: Vec<String> = items.iter().map(|(k, v)| format!(r#"["{k}",{v}]"#)).collect();
        format!(r#"{{"type":"dict","items":[{}]}}"#, items.join(","))
    };
    let hash = |value: String| dict(&[("hash", value)]);
    let entry = |depth: u64, log: &str, output: &str, rest: &str| {
        format!(
            r#"{{"call_depth":{depth},"log":{log},"output_str":{output},"stack_trace":null,"fwd_stack_trace":null,{rest}}}"#
        )
    };
    let one = scalar("4607182418800017408");
    let entries = [
        entry(
            0,
            "null",
            "null",
            r#""type":"annotate","tag":"L['self'].net","header":"nn.Mod (compile)""#,
        ),
        entry(
            2,
            &hash(one.clone()),
            r#""  ->  t: f32[3]""#,
            r#""type":"op","op_name":"aten::ones","args_str":"[3]","kwargs_str":", device=cpu""#,
        ),
        entry(
            2,
            "null",
            "null",
            &format!(
                r#""type":"triton_kernel","kernel_name":"triton_poi_fused_0","kwargs_str":"in_ptr0=t$1: f32[3], out_ptr0=t: f32[3, 2], xnumel=3","pre_hashes":{},"post_hashes":{}"#,
                dict(&[("in_ptr0", one.clone()), ("out_ptr0", scalar("0"))]),
                dict(&[("in_ptr0", one), ("out_ptr0", scalar("77"))])
            ),
        ),
        entry(
            1,
            "null",
            "null",
            &format!(
                r#""type":"triton_kernel","kernel_name":"triton_red_fused_1","kwargs_str":"in_out_ptr0=t: f32[3]","pre_hashes":null,"post_hashes":{}"#,
                dict(&[("in_out_ptr0", scalar("5"))])
            ),
        ),
        entry(
            1,
            "null",
            "null",
            r#""type":"redistribute","arg_str":"0","src_placement_str":"[S(0)]","dst_placement_str":"[R]","transform_info_str":"S(0)->R","is_explicit":false,"is_outer_call":true"#,
        ),
        entry(1, "null", "null", r#""type":"output_placement","placements_str":"[R]""#),
        entry(1, "null", "null", r#""type":"annotate","tag":"step","header":"record function""#),
        entry(
            1,
            "null",
            r#""  ->  t: f32[]""#,
            r#""type":"op","op_name":"torch.add","args_str":"t: f32[3]","kwargs_str":"""#,
        ),
        entry(
            1,
            &hash(r#"{"type":"nonfinite_float","value":"nan"}"#.to_owned()),
            r#""  ->  t: f32[]""#,
            r#""type":"op","op_name":"aten::sum","args_str":"t: f32[3]","kwargs_str":"""#,
        ),
    ];
    format!(
        r#"{{"format":"torch.utils._debug_mode.DebugMode.logs","version":1,"logs":[{}]}}"#,
        entries.join(",")
    ) + "\n"
}

#[test]
fn kernels_of_triton() {
    let report = dumps(COMPILED, COMPILED).diff();
    assert!(report.equal, "{report}");
    assert_eq!(report.ranks[0].counts.compared, 6);
    // Inputs of the second kernel and of the sum.
    assert_eq!(report.ranks[0].counts.without_digest, 2);
    assert!(report.sentence.starts_with("Equal in what was compared: all 6 records"), "{report}");
    let said = "of A, 3 lines without an operation, line 12 the first";
    assert!(report.sentence.contains(said), "{report}");

    let report = edited(COMPILED, "out_ptr0: 77", "out_ptr0: 78");
    assert_eq!(report.cause, Some(Cause::Operation), "{report}");
    let sentence = "Operation `triton_poi_fused_0` of `L['self'].net` (step 0, other) had equal inputs and \
                    unequal outputs.";
    assert_eq!(report.sentence, sentence);
    let first = report.ranks[0].first.as_ref().expect("a difference");
    assert_eq!(first.differences[0].what, "output 1 (`out_ptr0`)");
    let report = edited(COMPILED, "{in_out_ptr0: 5}", "{in_out_ptr0: 6}");
    assert!(report.sentence.contains("`triton_red_fused_1`"), "{report}");
    assert!(report.sentence.contains("some of its inputs have no digest"), "{report}");
    for (from, to) in [
        ("in_ptr0: 4607182418800017408, out_ptr0: 0", "in_ptr0: 4607182418800017408, out_ptr0: 1"),
        ("xnumel=3", "xnumel=4"),
        ("trace: S(0)->R", "trace: S(1)->R"),
        ("-> output: [R]", "-> output: [S(0)]"),
        ("'hash': nan", "'hash': inf"),
    ] {
        assert!(!edited(COMPILED, from, to).equal, "{from}");
    }
    // A kernel without hashes on one side.
    let report = edited(COMPILED, "    # post-kernel hashes: {in_out_ptr0: 5}\n", "");
    assert!(report.equal, "{report}");
    assert_eq!(report.ranks[0].counts.without_digest, 3);
    let one = COMPILED.replace("in_ptr0: 4607182418800017408, out_ptr0: 77", "out_ptr0: 77");
    let error = dumps(COMPILED, &one).try_diff().expect_err("a hash is missing").to_string();
    assert!(error.contains("line 5: 1 hashes of 2 tensors"), "{error}");
}

#[test]
fn logs_as_json() {
    let json = compiled_as_json();
    let report = dumps(&json, &json).diff();
    assert!(report.equal, "{report}");
    assert_eq!(report.ranks[0].counts.compared, 6);
    assert!(report.sentence.contains("of B, 2 entries without an operation, entry 7"), "{report}");
    // Text and JSON of one run have the same content.
    let report = dumps(COMPILED, &json).diff();
    assert!(report.equal, "{report}");
    let report = edited(&json, "\"value\":77", "\"value\":78");
    assert!(report.sentence.contains("`triton_poi_fused_0` of `L['self'].net`"), "{report}");
    assert_eq!(report.cause, Some(Cause::Operation), "{report}");
    let kind = json.replace("\"triton_kernel\"", "\"another\"");
    let report = dumps(&kind, &kind).diff();
    assert!(report.sentence.contains("4 entries without an operation, entry 3"), "{report}");

    for (from, to, problem) in [
        ("\"version\":1", "\"version\":2", "expected version 1, found 2"),
        ("\"kernel_name\"", "\"name\"", "entry 3 of the logs: missing field `kernel_name`"),
        ("\"value\":77", "\"value\":\"x\"", "entry 3 of the logs: expected a hash, found `x`"),
        ("]}\n", "", "logs of DebugMode: EOF while parsing"),
        (
            "DebugMode.logs",
            "DebugMode.others",
            "is JSON but not a ledger: a ledger has `schema`, this has \
                                               `format`, `logs`, `version`",
        ),
    ] {
        assert!(json.contains(from), "{from}");
        let error = dumps(&json, &json.replacen(from, to, 1)).try_diff().expect_err(problem);
        assert!(error.to_string().contains(problem), "{error}");
    }
    let error = dumps(&json, "{}\n").try_diff().expect_err("no fields").to_string();
    assert!(error.contains("this has no fields"), "{error}");
}

/// Returns a line of Megatron-LM's recorder, which sorts keys.
fn megatron(sequence: usize, rest: &str) -> String {
    format!(r#"{{{rest},"occurrence":0,"rank":0,"schema_version":1,"sequence":{sequence}}}"#) + "\n"
}

fn trace(values: &[(&str, &str, u8)]) -> String {
    let mut text = megatron(
        0,
        r#""event":"event","fields":{"value":3.5},"iteration":1,"microbatch":null,"name":"lr","phase":"unspecified""#,
    );
    for (sequence, (phase, name, value)) in (1..).zip(values) {
        let sha256 = format!("{value:02x}").repeat(32);
        text += &megatron(
            sequence,
            &format!(
                r#""event":"tensor","iteration":1,"metadata":{{}},"microbatch":0,"name":"{name}","phase":"{phase}","tensor":{{"all_finite":true,"captured_numel":8,"device_type":"cuda","dtype":"bfloat16","exact_value_certificate":true,"layout":"strided","mode":"full","numel":8,"requires_grad":true,"sha256":"{sha256}","shape":[2,4],"stride":[4,1],"value_observed":true}}"#
            ),
        );
    }
    text
}

/// Returns lines of the other modes, one with a summary that contains `mean`.
fn other_modes(mean: f64) -> String {
    let tensor = |rest: &str| {
        format!(
            r#""device_type":"cpu","dtype":"float32","exact_value_certificate":false,"layout":"strided","numel":10,"requires_grad":false,"shape":[10],"stride":[1],{rest}"#
        )
    };
    let outside = r#""iteration":null,"metadata":{"semantic_type":"x"},"microbatch":null"#;
    let line = |sequence, name: &str, rest: &str| {
        let tensor = tensor(rest);
        let text = format!(
            r#""event":"tensor",{outside},"name":"{name}","phase":"setup","tensor":{{{tensor}}}"#
        );
        megatron(sequence, &text)
    };
    let summary = format!(
        r#""mode":"summary","summary":{{"all_finite":true,"l2_norm":2.0,"maximum":1.0,"mean":{mean:?},"minimum":null}},"value_observed":true"#
    );
    let sampled = format!(
        r#""all_finite":true,"captured_numel":4,"mode":"sampled","sample_indices":[0,3,6,9],"sha256":"{}","value_observed":true"#,
        "ab".repeat(32)
    );
    line(0, "a", r#""mode":"metadata","value_observed":false"#)
        + &line(1, "b", &summary)
        + &line(2, "c", &sampled)
}

#[test]
fn traces_of_megatron() {
    let values =
        [("forward", "embedding", 1), ("forward", "layers.0", 2), ("backward", "layers.0", 3)];
    let text = trace(&values);
    assert!(dumps(&text, &text).diff().equal);
    let mut other = values;
    other[1].2 = 9;
    let report = dumps(&text, &trace(&other)).diff();
    assert_eq!(report.cause, Some(Cause::Layer), "{report}");
    assert!(report.sentence.contains("`layers.0` (step 1, forward)"), "{report}");
    assert!(report.sentence.contains("inputs are not recorded"), "{report}");
    let report = dumps(&text, &trace(&[values[0], values[2]])).diff();
    assert_eq!(report.cause, Some(Cause::Missing), "{report}");
    let report = dumps(&text, &text.replace("\"value\":3.5", "\"value\":4.5")).diff();
    assert_eq!(report.cause, Some(Cause::Call), "{report}");

    let report = dumps(&text, text.trim_end()).diff();
    assert_eq!(report.cause, Some(Cause::Extent), "{report}");
    assert!(
        report.to_string().contains("not compared: of B, line 4, which is incomplete"),
        "{report}"
    );

    let modes = other_modes(0.25);
    let report = dumps(&modes, &modes).diff();
    let sentence = "Equal in what was compared: all 3 records agree. Not compared: 1 tensor of 1 record \
                    without a digest in A or B, first output 0 of ";
    assert!(report.sentence.starts_with(sentence), "{report}");
    let report = dumps(&modes, &other_modes(0.5)).diff();
    let name = "`tensor (setup) outside of iterations outside of microbatches` of `b`";
    assert!(report.sentence.contains(name), "{report}");

    // The same event inside and outside a microbatch.
    let event = text.lines().next().expect("an event").to_owned() + "\n";
    let within = event.replace("\"microbatch\":null", "\"microbatch\":0");
    let both = event + &within.replace("\"sequence\":0", "\"sequence\":1");
    assert!(dumps(&both, &both).diff().equal);
    let other = both.replacen("\"value\":3.5", "\"value\":4.5", 1);
    let report = dumps(&both, &other).diff();
    assert!(report.sentence.contains("outside of microbatches"), "{report}");

    for (from, to, problem) in [
        ("\"phase\"", "\"phase\":\"x\",\"phase\"", "line 1: duplicate field `phase`"),
        ("\"value\":3.5", "\"value\":3.5,\"value\":3.5", "line 1: duplicate key `value`"),
        ("\"event\":\"event\"", "\"event\":\"note\"", "line 1: unknown variant"),
        ("\"event\":\"event\"", "\"event\":\"tensor\"", "line 1: missing field `tensor`"),
        ("\"iteration\":1,", "", "line 1: missing field `iteration`"),
        ("\"microbatch\":null,", "", "line 1: missing field `microbatch`"),
        ("\"mode\":\"full\"", "\"mode\":\"half\"", "line 2: unknown variant"),
        ("\"mode\":\"full\"", "\"mode\":\"summary\"", "line 2: missing field `summary`"),
        ("\"all_finite\"", "\"all_infinite\"", "line 2: unknown field"),
        (
            "\"schema_version\":1",
            "\"schema_version\":2",
            "line 1: schema_version: expected 1, found 2",
        ),
        ("\"sequence\":1", "\"sequence\":0", "line 2: sequence 0 after 0"),
        ("0202", "zz02", "line 3: digest"),
        ("layers.0", "embedding", "have one key"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = dumps(&text, &text.replacen(from, to, 1)).try_diff().expect_err(problem);
        assert!(error.to_string().contains(problem), "{error}");
    }
}
