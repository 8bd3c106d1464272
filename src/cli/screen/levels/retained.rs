//! The dominator tree: objects by the bytes that they retain, and below each the objects that only it keeps alive.

use coremap::addr::Addr;
use coremap::commands::retained::{RetainedReport, RetainedRow};
use coremap::program::units::{exact, human};
use coremap::report::Name;

use crate::cli::screen::level::{Column, Level, Opens, Row, at};

pub(super) fn level(report: &RetainedReport, path: &[String]) -> Option<Level> {
    let inside = match path.last() {
        None => None,
        Some(key) => Some(report.objects.iter().find(|row| at(row.object) == *key)?.object),
    };
    // The first list has the objects that no listed object retains.
    let is_listed = |addr: Addr| report.objects.iter().any(|row| row.object == addr);
    let is_shown = |row: &&RetainedRow| match inside {
        Some(_) => row.dominator == inside,
        None => row.dominator.is_none_or(|dominator| !is_listed(dominator)),
    };
    let note = match (inside, report.native) {
        _ if report.objects.is_empty() => "no managed heap and no malloc blocks were found".to_owned(),
        (None, true) => format!("{} of malloc blocks that roots reach", human(report.live.size)),
        (None, false) => format!("{} live of {} objects", human(report.live.size), exact(report.live.objects)),
        (Some(object), _) => format!("largest objects that {object} retains; the command below lists all"),
    };
    Some(Level {
        noun: "object",
        measure: "Retained",
        name: "Object",
        columns: vec![Column::number("Own", 3), Column::text("Address", 4)],
        rows: report.objects.iter().filter(is_shown).map(|row| of_object(report, row)).collect(),
        note: Some(note),
        ..Level::default()
    })
}

fn of_object(report: &RetainedReport, row: &RetainedRow) -> Row {
    let object = at(row.object);
    let has_children = report.objects.iter().any(|child| child.dominator == Some(row.object));
    let kind = row.name.as_ref().map_or_else(|| "?".to_owned(), Name::shown);
    let name = row.title.as_ref().map_or(kind.clone(), |title| format!("{title} ({kind})"));
    let field = row.dominator_field.as_ref().map_or_else(String::new, |field| format!("{}: ", field.shown()));
    let mut about = vec![("retained", format!("{} bytes", exact(row.retained.unwrap_or(0))))];
    about.extend(row.size.map(|size| ("own", format!("{} bytes", exact(size)))));
    about.extend(row.dominator.map(|holder| {
        let kind = row.dominator_type.as_ref().map_or_else(String::new, |kind| format!(" {}", kind.shown()));
        ("retained by", format!("{holder}{kind}"))
    }));
    about.extend(row.root_name.clone().or(row.root_kind.clone()).map(|root| ("root", root)));
    Row {
        key: object.clone(),
        name: format!("{field}{name}"),
        bytes: row.retained,
        cells: vec![row.size.map_or_else(|| "-".to_owned(), human), object.clone()],
        about,
        command: Some(vec!["retained".into(), "--object".into(), object]),
        opens: if has_children { Opens::Level } else { Opens::Command },
        ..Row::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_below_the_one_that_retains_them() {
        let row = |object, dominator: Option<u64>, retained| RetainedRow {
            object: Addr::new(object),
            dominator: dominator.map(Addr::new),
            retained: Some(retained),
            name: Some("T".into()),
            ..RetainedRow::default()
        };
        // 0x40 is retained by an object that is not listed.
        let objects =
            vec![row(0x10, None, 90), row(0x20, Some(0x10), 60), row(0x30, Some(0x20), 50), row(0x40, Some(0x99), 5)];
        let report = RetainedReport { objects, ..RetainedReport::default() };
        let keys = |path: &[&str]| {
            let path: Vec<String> = path.iter().map(|&key| key.to_owned()).collect();
            let rows = level(&report, &path).map(|level| level.rows).unwrap_or_default();
            rows.into_iter().map(|row| (row.key, row.opens)).collect::<Vec<_>>()
        };
        let key = |text: &str, opens| (text.to_owned(), opens);
        assert_eq!(keys(&[]), [key("0x10", Opens::Level), key("0x40", Opens::Command)]);
        assert_eq!(keys(&["0x10"]), [key("0x20", Opens::Level)]);
        assert_eq!(keys(&["0x10", "0x20"]), [key("0x30", Opens::Command)]);
        assert!(level(&report, &["0x77".to_owned()]).is_none());
    }
}
