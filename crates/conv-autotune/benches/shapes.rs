//! The tuned choice against the heuristic, over thirty real layers with one image each.
//!
//! Prints the table of `docs/book/autotuning.md`. The race and the comparison are measured separately:
//! the times in the table are medians of calls that alternate between the two choices.

use std::time::{Duration, Instant};

use samebits_conv_autotune::{
    Config, ConvCall, ConvKey, ConvPass, Fingerprint, Source, tuner_with,
};
use samebits_tensor_core::ops::ConvParams;
use samebits_tensor_core::{DType, Determinism, Device};

/// Network, layer, input channels, output channels, size, kernel, stride, groups.
type Layer = (&'static str, [usize; 6]);

const LAYERS: [Layer; 30] = [
    ("ResNet-50 stem", [3, 64, 224, 7, 2, 1]),
    ("ResNet-50 conv2 1x1 in", [64, 64, 56, 1, 1, 1]),
    ("ResNet-50 conv2 3x3", [64, 64, 56, 3, 1, 1]),
    ("ResNet-50 conv2 1x1 out", [64, 256, 56, 1, 1, 1]),
    ("ResNet-50 conv3 1x1 in", [256, 128, 56, 1, 1, 1]),
    ("ResNet-50 conv3 3x3 down", [128, 128, 56, 3, 2, 1]),
    ("ResNet-50 conv3 3x3", [128, 128, 28, 3, 1, 1]),
    ("ResNet-50 conv3 shortcut", [256, 512, 56, 1, 2, 1]),
    ("ResNet-50 conv4 3x3", [256, 256, 14, 3, 1, 1]),
    ("ResNet-50 conv4 1x1 out", [256, 1024, 14, 1, 1, 1]),
    ("ResNet-50 conv5 3x3", [512, 512, 7, 3, 1, 1]),
    ("ResNet-50 conv5 1x1 in", [2048, 512, 7, 1, 1, 1]),
    ("MobileNetV2 stem", [3, 32, 224, 3, 2, 1]),
    ("MobileNetV2 block1 depthwise", [32, 32, 112, 3, 1, 32]),
    ("MobileNetV2 block1 project", [32, 16, 112, 1, 1, 1]),
    ("MobileNetV2 block2 depthwise", [96, 96, 112, 3, 2, 96]),
    ("MobileNetV2 block3 expand", [24, 144, 56, 1, 1, 1]),
    ("MobileNetV2 block3 depthwise", [144, 144, 56, 3, 1, 144]),
    ("MobileNetV2 block6 depthwise", [192, 192, 28, 3, 1, 192]),
    ("MobileNetV2 block10 depthwise", [384, 384, 14, 3, 1, 384]),
    ("MobileNetV2 block14 depthwise", [576, 576, 14, 3, 2, 576]),
    ("MobileNetV2 head", [320, 1280, 7, 1, 1, 1]),
    ("U-Net enc1 a", [1, 64, 128, 3, 1, 1]),
    ("U-Net enc1 b", [64, 64, 128, 3, 1, 1]),
    ("U-Net enc2 a", [64, 128, 64, 3, 1, 1]),
    ("U-Net enc3 a", [128, 256, 32, 3, 1, 1]),
    ("U-Net enc4 a", [256, 512, 16, 3, 1, 1]),
    ("U-Net middle", [512, 512, 8, 3, 1, 1]),
    ("U-Net dec2", [256, 128, 32, 3, 1, 1]),
    ("U-Net output", [64, 2, 128, 1, 1, 1]),
];

fn key(layer: &Layer, pass: ConvPass, level: Determinism) -> ConvKey {
    let [inputs, outputs, size, kernel, stride, groups] = layer.1;
    let params =
        ConvParams { stride: vec![stride; 2], groups, ..ConvParams::padded(2, kernel / 2) };
    let (input, weight) = ([1, inputs, size, size], [outputs, inputs / groups, kernel, kernel]);
    ConvKey::new(pass, DType::F32, &input, &weight, &params, level)
}

fn config(benchmark: bool) -> Config {
    Config {
        benchmark,
        // The four likeliest: an FFT of a layer with many channels takes longer than all others.
        benchmark_limit: 4,
        ..Config::new(Fingerprint::host("bench"))
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[expect(clippy::print_stdout, reason = "the table is what a benchmark is for")]
fn main() {
    samebits_cpu_kernels::install();
    let tuned = tuner_with(Device::Cpu, config(true)).unwrap();
    let written = tuner_with(Device::Cpu, config(false)).unwrap();
    let start = Instant::now();
    for level in [Determinism::Portable, Determinism::NotGuaranteed] {
        println!("\n{level}\n");
        println!("| layer | pass | heuristic | ms | tuned | ms | ratio |");
        println!("|---|---|---|---:|---|---:|---:|");
        let mut ratios = Vec::new();
        for layer in &LAYERS {
            for pass in ConvPass::ALL {
                let key = key(layer, pass, level);
                let tuned = tuned.choose(&key).unwrap();
                let written = written.choose(&key).unwrap();
                assert_eq!(written.source, Source::Heuristic);
                let call = ConvCall::probe(&key, Device::Cpu).unwrap();
                let choices = [&written.candidate, &tuned.candidate];
                let times = if choices[0].id() == choices[1].id() {
                    let time = measure(&[choices[0]], &call)[0];
                    [time, time]
                } else {
                    let times = measure(&choices, &call);
                    [times[0], times[1]]
                };
                let ratio = times[1].as_secs_f64() / times[0].as_secs_f64();
                ratios.push(ratio);
                println!(
                    "| {} | {pass} | {} | {:.2} | {} | {:.2} | {ratio:.2} |",
                    layer.0,
                    choices[0].name(),
                    milliseconds(times[0]),
                    choices[1].name(),
                    milliseconds(times[1]),
                );
            }
        }
        ratios.sort_by(f64::total_cmp);
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        println!(
            "\ntuned / heuristic: mean {mean:.2}, median {:.2}, worst {:.2}; {:.0} s so far",
            ratios[ratios.len() / 2],
            ratios[ratios.len() - 1],
            start.elapsed().as_secs_f64()
        );
    }
}

/// Returns the median time of each candidate, over rounds in which they alternate.
fn measure(
    candidates: &[&std::sync::Arc<samebits_conv_autotune::Candidate<ConvCall>>],
    call: &ConvCall,
) -> Vec<Duration> {
    let mut times = vec![Vec::new(); candidates.len()];
    for _ in 0..9 {
        for (candidate, times) in candidates.iter().zip(&mut times) {
            let start = Instant::now();
            candidate.run(call).unwrap();
            times.push(start.elapsed());
        }
    }
    times
        .into_iter()
        .map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2]
        })
        .collect()
}
