use samebits::Generator;
use samebits::functional as f;
use workspace_tests::indices;

use super::check_twice;

#[test]
fn indexing_and_dropout() {
    let index = indices(9, 4, 5);
    check_twice("index_select", &[&[2, 4, 3]], &|x| f::index_select(&x[0].square()?, 1, &index));
    check_twice("index_add", &[&[2, 4, 3], &[2, 9, 3]], &|x| {
        f::index_add(&x[0].square()?, 1, &index, &x[1].square()?, 0.5)
    });
    check_twice("embedding", &[&[4, 3]], &|x| {
        f::embedding(&x[0].square()?, &index.reshape(&[3, 3])?)
    });
    check_twice("dropout", &[&[40]], &|x| f::dropout(&x[0].square()?, 0.4, &mut Generator::new(6)));
}
