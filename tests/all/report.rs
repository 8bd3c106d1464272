//! `report`: the page says what the other commands say, shows nothing secret, and no name in a core becomes markup. What
//! a browser makes of it, `tests/browser` looks at.

use std::path::Path;

use serde_json::Value;

use crate::support::builder::{CoreBuilder, Load, small_core_with};
use crate::support::real;
use crate::support::run::run;

/// The page of a core, and its data.
fn page(args: &[&str], cores: &[&Path]) -> (String, Value) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("page.html");
    let mut words = vec!["report", "-o", out.to_str().unwrap()];
    words.extend(args);
    words.extend(cores.iter().map(|core| core.to_str().unwrap()));
    run(words).is_sound();
    let html = std::fs::read_to_string(&out).unwrap();
    let data = data(&html);
    (html, data)
}

fn data(html: &str) -> Value {
    let (_, rest) = html.rsplit_once("<script type=\"application/json\" id=\"data\">").unwrap();
    let (text, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(text).unwrap()
}

fn answer(args: &[&str], core: &Path) -> Value {
    let mut words = args.to_vec();
    words.extend(["--json", core.to_str().unwrap()]);
    let out = run(words);
    out.is_sound();
    out.json()
}

fn sum(list: &Value) -> u64 {
    let numbers = list.as_array().unwrap().iter();
    numbers.map(|n| n.as_u64().or_else(|| n.as_str()?.parse().ok()).unwrap()).sum()
}

/// What each command answers by itself is what the page has of it.
#[test]
fn the_data_is_what_the_commands_answer() {
    for (name, managed) in [("native-malloc-gcore", false), ("dotnet8-objects", true)] {
        let core = real::plain(name);
        let (_, data) = page(&[], &[&core]);
        let mut parts = vec![
            ("summary", "kinds", vec!["summary", "--zero-fill"]),
            ("summary", "total", vec!["summary", "--zero-fill"]),
            ("triage", "findings", vec!["triage"]),
            ("regions", "regions", vec!["regions"]),
            ("stacks", "stacks", vec!["stacks", "--zero-fill"]),
            ("threads", "groups", vec!["threads", "--group"]),
            ("info", "completeness", vec!["info"]),
            ("malloc", "total", vec!["malloc"]),
            ("leaks", "leaked", vec!["leaks"]),
            ("anon", "clusters", vec!["anon"]),
        ];
        if managed {
            parts.extend([
                ("heapstat", "total", vec!["heapstat"]),
                ("retained", "live", vec!["retained"]),
                ("holders", "total", vec!["holders"]),
                ("heap", "loader", vec!["heap", "--loader"]),
            ]);
        }
        for (part, field, args) in parts {
            let theirs = answer(&args, &core);
            assert_eq!(data[part][field], theirs[field], "{name}: {part}.{field}");
        }
        let total = &data["summary"]["total"];
        assert_eq!(sum(&data["strip"]["in_core"]), total["in_core"].as_u64().unwrap(), "{name}");
        assert_eq!(sum(&data["strip"]["written"]), total["written"].as_u64().unwrap(), "{name}");
        assert_eq!(sum(&data["strip"]["size"]), total["size"].as_u64().unwrap(), "{name}");
        assert_eq!(
            data["boxes"]["b"],
            serde_json::json!([total["written"], total["in_core"], total["size"]]),
            "{name}"
        );
        boxes_add_up(&data["boxes"], name);
    }
}

/// Each box of the treemap is as large as the boxes in it.
fn boxes_add_up(node: &Value, name: &str) {
    let Some(parts) = node["c"].as_array() else { return };
    for measure in 0..3 {
        let of = |node: &Value| node["b"][measure].as_u64().unwrap();
        assert_eq!(parts.iter().map(of).sum::<u64>(), of(node), "{name}: {} by {measure}", node["n"]);
    }
    parts.iter().for_each(|part| boxes_add_up(part, name));
}

#[test]
fn the_dominator_tree_adds_up_to_the_live_objects() {
    let core = real::plain("dotnet8-objects");
    let (_, data) = page(&[], &[&core]);
    let tree = &data["dominators"];
    assert_eq!(tree["live"], data["retained"]["live"]["size"]);
    let bytes = |node: &Value, field: &str| node[field].as_u64().unwrap();
    let roots = tree["roots"].as_array().unwrap();
    assert!(!roots.is_empty());
    assert_eq!(
        roots.iter().map(|node| bytes(node, "retained")).sum::<u64>() + bytes(tree, "rest"),
        bytes(tree, "live")
    );
    let mut all: Vec<&Value> = roots.iter().collect();
    while let Some(node) = all.pop() {
        let children = node["children"].as_array().unwrap();
        let below: u64 = children.iter().map(|child| bytes(child, "retained")).sum();
        assert_eq!(bytes(node, "size") + below + bytes(node, "rest"), bytes(node, "retained"), "{}", node["object"]);
        all.extend(children);
    }
    // What `retained` says of the one that keeps most.
    let first = &roots[0];
    let object = first["object"].as_str().unwrap();
    let told = answer(&["retained", "--object", object], &core);
    assert_eq!(told["object"]["retained"], first["retained"], "{object}");
}

/// Names of files, threads and types are text, wherever they stand.
#[test]
fn a_hostile_name_is_no_markup() {
    let evil = "/lib/</script><script>alert(1)</script><img src=x onerror=alert(2)>\" onload=\"x' \u{202e}\u{200b}.so";
    let long = format!("/lib/{}.so", "<b>".repeat(1000));
    for name in [evil, long.as_str()] {
        let core = small_core_with(name).write();
        let (html, data) = page(&[], &[core.path()]);
        // The two of the page's own, and no other element that could run or load anything.
        assert_eq!(html.matches("<script").count(), 2, "{name}");
        for wrong in ["<img", "<b>b", "onload=\"", "\u{202e}", "\u{200b}"] {
            let body = html.split_once("<body>").unwrap().1.split_once("<script>").unwrap().0;
            assert!(!body.contains(wrong), "{name}: {wrong}");
        }
        let files: Vec<&str> =
            data["regions"]["regions"].as_array().unwrap().iter().filter_map(|r| r["file"].as_str()).collect();
        assert!(files.iter().any(|f| f.starts_with("/lib/<")), "the name is there: {files:?}");
        assert!(html.contains("/lib/&lt;"), "and is shown");
    }
}

/// Nothing is asked of anybody: no address, no handler or style outside of what the policy allows.
#[test]
fn the_page_is_one_file() {
    let (html, _) = page(&[], &[&real::plain("native-glibc-kernel")]);
    let markup = html.split_once("<body>").unwrap().1.split_once("<script type").unwrap().0;
    for wrong in ["http:", "https:", "src=", " style=", " onclick=", "javascript:", "url("] {
        assert!(!markup.contains(wrong), "{wrong}");
    }
    let policy = html.split_once("Content-Security-Policy\" content=\"").unwrap().1.split_once('"').unwrap().0;
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
}

#[test]
fn contents_are_there_only_where_they_are_asked_for() {
    let core = real::plain("dotnet8-objects");
    let strings = answer(&["heapstat", "--strings"], &core);
    let text = strings["strings"]["duplicates"].as_array().unwrap().iter();
    // Paths of modules are strings too, and are shown as what they are.
    let is_content = |text: &&str| text.len() > 12 && text.is_ascii() && !text.contains('/');
    let text = text.filter_map(|row| row["value"].as_str()).find(is_content).unwrap();
    let (html, data) = page(&[], &[&core]);
    assert!(!html.contains(text), "{text}");
    assert!(data["heapstat"]["strings"]["duplicates"][0]["count"].as_u64().unwrap() > 1);
    assert_eq!(data["info"]["process"]["command_line"], Value::Null);
    let (_, data) = page(&["--show-data"], &[&core]);
    let shown = data["heapstat"]["strings"]["duplicates"].as_array().unwrap();
    assert!(shown.iter().any(|row| row["value"] == text), "{text}");
    assert_eq!(
        data["info"]["process"]["command_line"],
        answer(&["info", "--show-data"], &core)["process"]["command_line"]
    );
}

#[test]
fn a_page_that_was_changed_is_found_out() {
    let core = real::plain("native-malloc-gcore");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("page.html");
    run(["report", "-o", out.to_str().unwrap(), core.to_str().unwrap()]).exits(0);
    let check = |status| {
        let out = run(["check", "--json", "--report", out.to_str().unwrap(), core.to_str().unwrap()]);
        out.exits(status).json()["invariants"].as_array().unwrap().clone()
    };
    let of_page = |all: Vec<Value>| -> Vec<Value> {
        all.into_iter().filter(|i| i["name"].as_str().unwrap().starts_with("page: ")).collect()
    };
    let told = of_page(check(0));
    assert!(told.len() > 8 && told.iter().all(|i| i["ok"] == true), "{told:?}");
    let html = std::fs::read_to_string(&out).unwrap();
    let written = data(&html)["summary"]["total"]["written"].as_u64().unwrap();
    let (before, after) = html.rsplit_once(&format!("\"written\":{written},")).unwrap();
    std::fs::write(&out, format!("{before}\"written\":{},{after}", written + 4096)).unwrap();
    let broken: Vec<Value> = of_page(check(4)).into_iter().filter(|i| i["ok"] == false).collect();
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert_eq!(broken[0]["name"], "page: summary");
    let detail = broken[0]["detail"].as_str().unwrap();
    assert!(detail.contains("total.written") && detail.contains(&written.to_string()), "{detail}");
    let other = real::plain("native-glibc-kernel");
    let told = run(["check", "--json", "--report", out.to_str().unwrap(), other.to_str().unwrap()]);
    assert!(told.exits(4).json()["invariants"].as_array().unwrap().iter().filter(|i| i["ok"] == false).count() > 5);
}

#[test]
fn a_pair_has_what_diff_says() {
    let (old, new) = (real::plain("dotnet31-createdump"), real::plain("dotnet31-gcore"));
    let (html, data) = page(&[], &[&old, &new]);
    let theirs = answer(&["diff", old.to_str().unwrap()], &new);
    for field in ["kinds", "total", "threads"] {
        assert_eq!(data["diff"][field], theirs[field], "{field}");
    }
    assert_eq!(data["old"]["summary"]["total"], answer(&["summary", "--zero-fill"], &old)["total"]);
    assert_eq!(data["summary"]["total"], answer(&["summary", "--zero-fill"], &new)["total"]);
    for table in ["kind-changes", "subject-changes", "type-changes"] {
        assert!(html.contains(&format!("<table id=\"{table}\"")), "{table}");
    }
}

/// A core of more regions than a page lists: the rest is summed, and the strip has all.
#[test]
fn what_is_left_out_is_told() {
    let regions = 6000_u64;
    let loads = (0..regions).map(|i| Load::at(0x10_0000 + i * 0x2000).flags(4 + 2 * (i as u32 % 2)).memsz(0x1000));
    let core = CoreBuilder::x86_64().loads(loads).write();
    let (html, data) = page(&[], &[core.path()]);
    assert!(html.len() < 8_000_000, "{}", html.len());
    let left_out = data["left_out"].as_array().unwrap().iter().find(|l| l["part"] == "regions").unwrap();
    let listed = data["regions"]["regions"].as_array().unwrap();
    assert_eq!(
        listed.len() as u64 + left_out["rows"].as_u64().unwrap(),
        data["summary"]["total"]["count"].as_u64().unwrap()
    );
    let bytes: u64 = listed.iter().map(|r| r["size"].as_u64().unwrap()).sum();
    let size = data["summary"]["total"]["size"].as_u64().unwrap();
    assert_eq!(bytes + left_out["bytes"].as_u64().unwrap(), size);
    assert_eq!(sum(&data["strip"]["size"]), size);
    assert!(html.contains("Rows omitted from this page"));
}

#[test]
fn standard_output_takes_the_page_alone() {
    let core = small_core_with("/lib/libx.so").write();
    let out = run(["report", "-o", "-", core.path().to_str().unwrap()]);
    assert!(
        out.stdout.starts_with("<!doctype html>") && out.stdout.trim_end().ends_with("</html>"),
        "{}",
        out.stdout.len()
    );
    assert_eq!(data(&out.stdout)["command"], "report");
}
