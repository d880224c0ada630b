//! A report as a self-contained HTML page.

use std::fmt::{self, Display, Write as _};

use crate::diff::{
    Bucket, Change, Class, Counts, Difference, ElementDifference, Parting, Place, RankReport,
    Report, Slice, TensorComparison,
};

const STYLE: &str = include_str!("html/page.css");

/// The kinds of records on a timeline, in the order of the legend.
const CLASSES: [(Class, &str, &str); 7] = [
    (Class::Equal, "equal", "equal"),
    (Class::Origin, "origin", "equal inputs, unequal outputs"),
    (Class::Content, "content", "different contents"),
    (Class::Event, "event", "other arguments, shapes or types"),
    (Class::Missing, "missing", "in one run only"),
    (Class::Moved, "moved", "in another order"),
    (Class::Skipped, "skipped", "not compared"),
];

/// Writes a report as a page: a timeline per rank, the records that differ, and histograms of the
/// tensors that both runs kept. The page has no scripts and loads nothing.
///
/// # Errors
///
/// The writer's errors.
pub fn write(report: &Report, to: &mut dyn std::io::Write) -> std::io::Result<()> {
    let mut page = String::new();
    // Writing to a string does not fail.
    body(report, &mut page).map_err(std::io::Error::other)?;
    to.write_all(page.as_bytes())
}

fn body(report: &Report, page: &mut String) -> fmt::Result {
    let (badge, class) = if report.equal { ("equal", "equal") } else { ("parted", "origin") };
    write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>samebits diff: {badge}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <p><span class=\"badge {class}\">{badge}</span></p>\n<h1>{}</h1>\n",
        Text(&report.sentence)
    )?;
    writeln!(
        page,
        "<table><tr><th>A</th><td><code>{}</code></td></tr>\
         <tr><th>B</th><td><code>{}</code></td></tr></table>",
        Text(report.a.display()),
        Text(report.b.display())
    )?;
    changes(page, "Environment", &report.environment)?;
    changes(page, "Seeds", &report.seeds)?;
    notes(page, &report.notes)?;
    report.ranks.iter().try_for_each(|one| rank(page, one))?;
    page.write_str("</main>\n</body>\n</html>\n")
}

fn changes(page: &mut String, title: &str, changes: &[Change]) -> fmt::Result {
    if changes.is_empty() {
        return Ok(());
    }
    write!(page, "<h2>{title}</h2>\n<table><tr><th></th><th>A</th><th>B</th></tr>\n")?;
    for Change { name, a, b } in changes {
        let [a, b] = [a, b].map(|side| side.as_deref().unwrap_or("nothing"));
        writeln!(
            page,
            "<tr><th>{}</th><td><code>{}</code></td><td><code>{}</code></td></tr>",
            Text(name),
            Text(a),
            Text(b)
        )?;
    }
    page.write_str("</table>\n")
}

fn notes(page: &mut String, notes: &[String]) -> fmt::Result {
    if notes.is_empty() {
        return Ok(());
    }
    page.write_str("<ul>\n")?;
    notes.iter().try_for_each(|note| writeln!(page, "<li>{}</li>", Text(note)))?;
    page.write_str("</ul>\n")
}

fn rank(page: &mut String, rank: &RankReport) -> fmt::Result {
    write!(page, "<section>\n<h2>Rank {}</h2>\n<p>{}</p>\n", rank.rank, Text(&rank.sentence))?;
    timeline(page, &rank.timeline)?;
    let Counts { compared, order, content, event, only_a, only_b, .. } = rank.counts;
    writeln!(
        page,
        "<p>{compared} records compared: {content} with different contents, {event} called differently, \
         {order} in another order; {only_a} only in A, {only_b} only in B.</p>"
    )?;
    if !rank.uncompared.is_empty() {
        page.write_str("<p>Not compared:</p>\n")?;
        notes(page, &rank.uncompared)?;
    }
    notes(page, &rank.notes)?;
    if let Some(first) = &rank.first {
        page.write_str("<h3>The first difference</h3>\n")?;
        parting(page, first)?;
    }
    rank.tensors.iter().try_for_each(|one| tensor(page, one))?;
    if let Some(spread) = &rank.spread {
        let text = spread.to_string();
        let first_line = text.lines().next().unwrap_or_default();
        writeln!(page, "<h3>After it</h3>\n<p>{}.</p>", Text(first_line))?;
        page.write_str("<ul>\n")?;
        spread.next.iter().try_for_each(|place| writeln!(page, "<li>{}</li>", Text(place)))?;
        page.write_str("</ul>\n")?;
    }
    for other in &rank.others {
        writeln!(page, "<h3>Also: the first {}</h3>", kind(other))?;
        parting(page, other)?;
    }
    page.write_str("</section>\n")
}

fn kind(parting: &Parting) -> &'static str {
    use crate::diff::Mismatch::{Content, Event, Missing, Order};
    match parting.mismatch {
        Order => "record in another order",
        Content => "record with different contents",
        Event => "record called differently",
        Missing => "record in one run only",
    }
}

/// Writes one bar of slices, as wide as the page, and the legend of its colours.
fn timeline(page: &mut String, slices: &[Slice]) -> fmt::Result {
    if slices.is_empty() {
        return Ok(());
    }
    let width = slices.len();
    writeln!(
        page,
        "<svg class=\"timeline\" viewBox=\"0 0 {width} 40\" preserveAspectRatio=\"none\" \
         role=\"img\" aria-label=\"records in order\">"
    )?;
    for (at, slice) in slices.iter().enumerate() {
        let class = CLASSES.iter().find(|(class, ..)| *class == slice.worst).map_or("", |it| it.1);
        let Slice { records, unequal, sequence, steps: (from, to), .. } = slice;
        // A little wider than its slot, so that no seams show.
        write!(
            page,
            "<rect class=\"{class}\" x=\"{at}\" y=\"8\" width=\"1.02\" height=\"32\"><title>from record \
             {sequence}, step {from} to {to}: {unequal} of {records} differ</title></rect>"
        )?;
        if slice.first {
            write!(page, "<rect class=\"mark\" x=\"{at}\" y=\"0\" width=\"1.02\" height=\"6\"/>")?;
        }
    }
    page.write_str("\n</svg>\n<p class=\"legend\">")?;
    for (class, name, meaning) in CLASSES {
        if slices.iter().any(|slice| slice.worst == class) {
            write!(page, "<span><i class=\"{name}\"></i>{meaning}</span> ")?;
        }
    }
    page.write_str("<span><i class=\"mark\"></i>first difference</span></p>\n")
}

fn parting(page: &mut String, parting: &Parting) -> fmt::Result {
    page.write_str("<table><tr><th></th><th>A</th><th>B</th></tr>\n")?;
    let row = |page: &mut String, head: &str, a: Option<&Place>, b: Option<&Place>| {
        let [a, b] = [a, b].map(|place| place.map_or("none".to_owned(), Place::to_string));
        writeln!(page, "<tr><th>{head}</th><td>{}</td><td>{}</td></tr>", Text(a), Text(b))
    };
    if let Some([a, b]) = &parting.before {
        row(page, "before", Some(a), Some(b))?;
    }
    row(page, "here", parting.a.as_ref(), parting.b.as_ref())?;
    for Difference { what, a, b, .. } in &parting.differences {
        writeln!(
            page,
            "<tr><th>{}</th><td><code>{}</code></td><td><code>{}</code></td></tr>",
            Text(what),
            Text(a),
            Text(b)
        )?;
    }
    page.write_str("</table>\n")
}

fn tensor(page: &mut String, tensor: &TensorComparison) -> fmt::Result {
    let TensorComparison { what, dtype, elements, unequal, most_ulps, histogram, first } = tensor;
    write!(
        page,
        "<h3>Elements of {}</h3>\n<p>{unequal} of {elements} elements of {} differ",
        Text(what),
        Text(dtype)
    )?;
    most_ulps.iter().try_for_each(|ulps| write!(page, ", by up to {ulps} ulp"))?;
    page.write_str(".</p>\n")?;
    if !histogram.is_empty() {
        let most = histogram.iter().map(|bucket| bucket.elements).max().unwrap_or(1).max(1);
        page.write_str(
            "<table class=\"histogram\"><tr><th>ulp</th><th>elements</th><th></th></tr>\n",
        )?;
        for Bucket { ulps, elements } in histogram {
            let percent = *elements as f64 / most as f64 * 100.0;
            writeln!(
                page,
                "<tr><th>{ulps}</th><td>{elements}</td>\
                 <td><div class=\"bar\" style=\"width:{percent:.1}%\"></div></td></tr>"
            )?;
        }
        page.write_str("</table>\n")?;
    }
    if !first.is_empty() {
        page.write_str("<table><tr><th>index</th><th>A</th><th>B</th><th>ulp</th></tr>\n")?;
        for ElementDifference { index, a, b, ulps } in first {
            let ulps = ulps.map_or(String::new(), |ulps| ulps.to_string());
            writeln!(
                page,
                "<tr><td>{index:?}</td><td><code>{a}</code></td><td><code>{b}</code></td><td>{ulps}</td></tr>"
            )?;
        }
        page.write_str("</table>\n")?;
    }
    Ok(())
}

/// Text that escapes markup characters.
struct Text<T>(T);

impl<T: Display> Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.to_string().chars() {
            match c {
                '&' => f.write_str("&amp;"),
                '<' => f.write_str("&lt;"),
                '>' => f.write_str("&gt;"),
                '"' => f.write_str("&quot;"),
                '\'' => f.write_str("&#39;"),
                _ => f.write_char(c),
            }?;
        }
        Ok(())
    }
}
