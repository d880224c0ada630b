//! The programs in the README and in the book, as documentation tests.

documents! {
    Readme "README.md";
    Introduction "docs/book/introduction.md";
    GettingStarted "docs/book/getting-started.md";
    TwoRunsDiffer "docs/book/two-runs-differ.md";
    FromPytorch "docs/book/from-pytorch.md";
    FromCandleAndBurn "docs/book/from-candle-and-burn.md";
    Determinism "docs/book/determinism.md";
    RandomNumbers "docs/book/random-numbers.md";
    DataLoader "docs/book/data-loader.md";
    Autotuning "docs/book/autotuning.md";
    CustomOperations "docs/book/custom-operations.md";
    Distributed "docs/book/distributed.md";
    Transformers "docs/book/transformers.md";
    Cuda "docs/book/cuda.md";
    Platforms "docs/book/platforms.md";
    Faq "docs/book/faq.md";
    Diff "docs/book/diff.md";
    Ledger "docs/book/ledger.md";
    LedgerPytorch "docs/book/ledger-pytorch.md";
    Numerics "docs/book/numerics.md";
    Contractions "docs/book/contractions.md";
    Glossary "docs/book/glossary.md";
    Benchmarks "docs/book/benchmarks.md";
    CudaCost "docs/book/cuda-cost.md";
    Gpu "docs/book/gpu.md";
    AddingAnOperator "docs/book/adding-an-operator.md";
    Emulator "docs/book/emulator.md";
    VerifyMath "docs/book/verify-math.md";
    StatisticalTests "docs/book/statistical-tests.md";
    Mutants "docs/book/mutants.md";
}
