//! Prints the registry as the table of docs/book/determinism.md.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

fn main() {
    samebits::install();
    println!("| operation | pass | device | types | variant | level | why |");
    println!("|---|---|---|---|---|---|---|");
    for (kernel, _) in samebits::registry::kernels() {
        let types: Vec<&str> = kernel.dtypes.iter().map(|dtype| dtype.name()).collect();
        println!(
            "| `{}` | {} | {} | {} | {} | `{}` | {} |",
            kernel.op,
            kernel.pass,
            kernel.device,
            types.join(" "),
            kernel.variant,
            kernel.level,
            kernel.why
        );
    }
}
