use samebits::functional as f;

use super::check_twice;

#[test]
fn shapes_and_reductions() {
    check_twice("sum", &[&[3, 4, 2]], &|x| f::sum(&x[0].square()?, [0, 2], true));
    check_twice("mean", &[&[3, 4]], &|x| f::mean(&x[0].square()?, [1], true));
    check_twice("permute", &[&[2, 3, 4]], &|x| f::permute(&x[0].square()?, [2, 0, 1]));
    check_twice("reshape", &[&[2, 6]], &|x| f::reshape(&x[0].square()?, [3, 4]));
    check_twice("expand", &[&[3, 1]], &|x| f::expand(&x[0].square()?, &[2, 3, 4]));
    check_twice("reused", &[&[4]], &|x| x[0].mul(&x[0].square()?.add(&x[0])?));
    check_twice("cat", &[&[2, 3], &[2, 0], &[2, 4]], &|x| {
        f::cat(&[x[0].square()?, x[1].clone(), x[2].square()?], 1)
    });
    check_twice("stack", &[&[2, 3], &[2, 3]], &|x| f::stack(&[x[0].square()?, x[1].square()?], 2));
    check_twice("narrow", &[&[2, 6]], &|x| f::narrow(&x[0].square()?, 1, 2, 3));
    check_twice("split", &[&[5, 2]], &|x| Ok(f::split(&x[0].square()?, &[1, 3, 1], 0)?.remove(1)));
}
