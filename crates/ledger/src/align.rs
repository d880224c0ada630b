//! Pairing of the records of two ledgers.
//!
//! Records of one group (the key without the occurrence) are paired in order, or by content if some
//! are missing. The pairs in the same order in both ledgers anchor the alignment; the other pairs
//! count as moved.

use std::collections::BTreeMap;

use similar::{Algorithm, DiffTag, capture_diff_slices};

use crate::read::{Entry, Prints};

/// Groups with more pairs of records than this are paired in order, because comparing all is
/// quadratic.
const MOST_PAIRS: usize = 1 << 22;

/// A pair of records, by index; at least one of the two is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) a: Option<u32>,
    pub(crate) b: Option<u32>,
    /// True if both are present, at different positions among the rest.
    pub(crate) moved: bool,
}

/// Returns every record of both ledgers once, in the order of `a`. Records of `b` alone come before
/// the next record of `b` that follows them.
pub(crate) fn align(a: &[Entry], b: &[Entry]) -> Vec<Row> {
    let partners = partners(a, b);
    let pairs: Vec<(u32, u32)> =
        (0..).zip(&partners).filter_map(|(i, partner)| partner.map(|j| (i, j))).collect();
    let mut taken = vec![false; b.len()];
    pairs.iter().for_each(|&(_, j)| taken[j as usize] = true);
    let anchors = longest_increasing(&pairs);

    let mut rows = Vec::with_capacity(a.len().max(b.len()));
    let mut anchors = anchors.into_iter().peekable();
    let mut next_b = 0;
    let only_b = |until: u32, next_b: &mut u32, rows: &mut Vec<Row>| {
        for j in *next_b..until {
            if !taken[j as usize] {
                rows.push(Row { a: None, b: Some(j), moved: false });
            }
        }
        *next_b = until;
    };
    for (i, &partner) in (0..).zip(&partners) {
        let anchored = anchors.next_if(|&(anchor, _)| anchor == i).is_some();
        match partner {
            Some(j) => {
                if anchored {
                    only_b(j, &mut next_b, &mut rows);
                }
                rows.push(Row { a: Some(i), b: Some(j), moved: !anchored });
            }
            None => rows.push(Row { a: Some(i), b: None, moved: false }),
        }
    }
    only_b(b.len() as u32, &mut next_b, &mut rows);
    rows
}

/// Returns the partner of each record of `a`.
fn partners(a: &[Entry], b: &[Entry]) -> Vec<Option<u32>> {
    let mut partners = vec![None; a.len()];
    let (a_order, b_order) = (by_group(a), by_group(b));
    let (mut a_rest, mut b_rest) = (&a_order[..], &b_order[..]);
    while let (Some(&i), Some(&j)) = (a_rest.first(), b_rest.first()) {
        let (a_group, b_group) = (a[i as usize].group, b[j as usize].group);
        let group = a_group.min(b_group);
        let of_a = take_group(&mut a_rest, a, |entry| entry.group == group);
        let of_b = take_group(&mut b_rest, b, |entry| entry.group == group);
        if !of_a.is_empty() && !of_b.is_empty() {
            pair_group(a, b, of_a, of_b, &mut partners);
        }
    }
    partners
}

fn by_group(entries: &[Entry]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..entries.len() as u32).collect();
    order.sort_unstable_by_key(|&i| (entries[i as usize].group, i));
    order
}

fn take_group<'a>(
    rest: &mut &'a [u32],
    entries: &[Entry],
    is_of: impl Fn(&Entry) -> bool,
) -> &'a [u32] {
    let len = rest.iter().take_while(|&&i| is_of(&entries[i as usize])).count();
    let (group, others) = rest.split_at(len);
    *rest = others;
    group
}

/// Pairs the records of a group: equal records first, then records of equal structure, then the
/// rest in order.
fn pair_group(a: &[Entry], b: &[Entry], of_a: &[u32], of_b: &[u32], partners: &mut [Option<u32>]) {
    let content = |entries: &[Entry], i: u32| entries[i as usize].prints;
    let same = |&(&i, &j): &(&u32, &u32)| content(a, i) == content(b, j);
    let prefix = of_a.iter().zip(of_b).take_while(same).count();
    let suffix =
        of_a[prefix..].iter().rev().zip(of_b[prefix..].iter().rev()).take_while(same).count();
    let (a_middle, b_middle) = (prefix..of_a.len() - suffix, prefix..of_b.len() - suffix);
    let mut pair = |a: &[u32], b: &[u32]| {
        a.iter().zip(b).for_each(|(&i, &j)| partners[i as usize] = Some(j));
    };
    pair(&of_a[..prefix], &of_b[..prefix]);
    pair(&of_a[a_middle.end..], &of_b[b_middle.end..]);

    let (of_a, of_b) = (&of_a[a_middle], &of_b[b_middle]);
    if of_a.len().saturating_mul(of_b.len()) > MOST_PAIRS {
        return pair(of_a, of_b);
    }
    let mut left_a = Vec::new();
    let mut left_b = Vec::new();
    by_print(
        a,
        b,
        of_a,
        of_b,
        |prints| prints,
        |equal, of_a, of_b| {
            if equal || of_a.len() == of_b.len() {
                return pair(of_a, of_b);
            }
            by_print(
                a,
                b,
                of_a,
                of_b,
                |prints| prints.structure,
                |_, of_a, of_b| {
                    pair(of_a, of_b);
                    let common = of_a.len().min(of_b.len());
                    left_a.extend_from_slice(&of_a[common..]);
                    left_b.extend_from_slice(&of_b[common..]);
                },
            );
        },
    );
    // Equal records left over on both sides were moved past other records of their group.
    let mut places: BTreeMap<Prints, Vec<u32>> = BTreeMap::new();
    for &j in left_b.iter().rev() {
        places.entry(content(b, j)).or_default().push(j);
    }
    for i in left_a {
        if let Some(j) = places.get_mut(&content(a, i)).and_then(Vec::pop) {
            pair(&[i], &[j]);
        }
    }
}

/// Calls `piece` for runs of records whose prints are equal, and for the runs between them.
fn by_print<P: Eq + std::hash::Hash + Ord>(
    a: &[Entry],
    b: &[Entry],
    of_a: &[u32],
    of_b: &[u32],
    print: impl Fn(Prints) -> P,
    mut piece: impl FnMut(bool, &[u32], &[u32]),
) {
    let prints = |entries: &[Entry], of: &[u32]| -> Vec<P> {
        of.iter().map(|&i| print(entries[i as usize].prints)).collect()
    };
    let operations = capture_diff_slices(Algorithm::Myers, &prints(a, of_a), &prints(b, of_b));
    // Adjacent removals and insertions form one run.
    let (mut from_a, mut from_b) = (0, 0);
    for operation in operations.iter().filter(|operation| operation.tag() == DiffTag::Equal) {
        let (old, new) = (operation.old_range(), operation.new_range());
        piece(false, &of_a[from_a..old.start], &of_b[from_b..new.start]);
        (from_a, from_b) = (old.end, new.end);
        piece(true, &of_a[old], &of_b[new]);
    }
    piece(false, &of_a[from_a..], &of_b[from_b..]);
}

/// Finds the longest subsequence of pairs, ordered by first index, with increasing second indices.
fn longest_increasing(pairs: &[(u32, u32)]) -> Vec<(u32, u32)> {
    // The last pair of the best chain of each length, and each pair's predecessor in its chain.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (at, &(_, j)) in pairs.iter().enumerate() {
        let len = ends.partition_point(|&end| pairs[end].1 < j);
        before.push(len.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(len) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let last = ends.last().copied();
    let mut chain: Vec<(u32, u32)> =
        std::iter::successors(last, |&at| before[at]).map(|at| pairs[at]).collect();
    chain.reverse();
    chain
}
