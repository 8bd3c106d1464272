//! `scan-secrets`: what is planted is found, in both encodings and across every border, and no value is ever told.
//! Secrets are put together here, so that no source has a whole one.

use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde_json::Value;

use crate::support::builder::{CoreBuilder, Load, R, W};
use crate::support::commands::{GLIBC, unpacked};
use crate::support::notes;
use crate::support::real::hex;
use crate::support::run::{Output, run};

/// Where memory begins, and how it is cut by the scan: into tasks, and these into windows.
const BASE: u64 = 0x5000_0000_0000;
const TASK: usize = 4 << 20;
const WINDOW: usize = 256 << 10;

fn letters(length: usize, seed: u8) -> String {
    let byte = |i: usize| (i as u8).wrapping_mul(37).wrapping_add(seed).wrapping_mul(91);
    let all = BASE64URL_NOPAD.encode(&(0..length).map(byte).collect::<Vec<_>>());
    all.replace(['-', '_'], "7")[..length].to_owned()
}

/// One of each kind: the kind, whether it is checked, the text, and the part of it that nobody may see.
fn planted() -> Vec<(&'static str, bool, String, String)> {
    let key = BASE64.encode(letters(600, 1).as_bytes());
    let part = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
    let jwt = [part("{\"alg\":\"ES256\"}"), part("{\"sub\":\"somebody\"}"), letters(60, 2)].join(".");
    let storage = BASE64.encode(letters(64, 3).as_bytes());
    let signature = BASE64.encode(letters(32, 4).as_bytes()).replace('=', "%3D");
    let pair = BASE64.encode(format!("planted:{}", letters(12, 5)).as_bytes());
    let word = |seed| format!("a1{}", letters(14, seed));
    let whole = |text: String| (text.clone(), text);
    let rows = [
        (
            "private-key",
            true,
            (format!("-----{0} {1}-----\n{key}\n-----{2} {1}-----", "BEGIN", "EC PRIVATE KEY", "END"), key),
        ),
        ("jwt", true, whole(jwt)),
        ("aws-access-key", false, whole(format!("AK{}QWERTYUI234567AB", "IA"))),
        ("github-token", false, whole(format!("gh{}_{}", "p", letters(36, 6)))),
        ("gitlab-token", false, whole(format!("gl{}-{}", "pat", letters(20, 7)))),
        ("slack-token", false, whole(format!("xo{}-1234567890-{}", "xb", letters(20, 8)))),
        ("stripe-key", false, whole(format!("sk_{}_{}", "live", letters(24, 9)))),
        ("google-api-key", false, whole(format!("AI{}{}", "za", letters(35, 10)))),
        ("npm-token", false, whole(format!("np{}_{}", "m", letters(36, 11)))),
        ("pypi-token", false, whole(format!("py{}-AgEIcHlwaS5vcmc{}", "pi", letters(90, 12)))),
        ("azure-storage-key", true, (format!("Account{}={storage}", "Key"), storage)),
        ("azure-sas", true, (format!("?sv=2024-01-01&se=2030-01-01&{}={signature}", "sig"), signature)),
        ("connection-string", false, (format!("Server=db;User Id=sa;{}={};", "Password", word(13)), word(13))),
        ("url-password", false, (format!("amqp://app:{}@queue.local/x", word(14)), word(14))),
        ("http-credentials", true, (format!("{} {pair}", "Basic"), pair)),
        ("cookie", false, (format!("Cookie: session={}", word(15)), word(15))),
        ("named-secret", false, (format!("{{\"{}\":\"{}\"}}", "password", word(16)), word(16))),
        ("iban", true, whole(["DE89", "370400440532013000"].concat())),
        ("card-number", true, whole(["4111", "1111", "1111", "1111"].join("-"))),
        ("email-address", false, whole(format!("jane.{}@firm.org", "planted"))),
    ];
    rows.into_iter().map(|(kind, checked, (text, secret))| (kind, checked, text, secret)).collect()
}

/// A core with a thread and its stack, without which it would be told as partial.
fn core() -> CoreBuilder {
    let stack = 0x7ffd_0000_0000;
    let thread = notes::prstatus_x86_64(1, 0, stack + 0x1800, 0, 0);
    CoreBuilder::x86_64().note(thread).load(Load::at(stack).bytes(vec![0; 0x2000]))
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// In all three forms, with the log: nobody may see a value, nor a half of one.
fn asked(core: &str, secrets: &[String]) -> Value {
    let mut outs: Vec<Output> = Vec::new();
    for form in [&["--format", "table"][..], &["--format", "csv"], &["--json"], &["--json", "-vv"]] {
        let out = run([&["scan-secrets"], form, &[core]].concat());
        out.exits(0);
        let said = format!("{}{}", out.stdout, out.stderr);
        for secret in secrets {
            for half in [secret, &secret[..secret.len() / 2], &secret[secret.len() / 2..]] {
                assert!(!said.contains(half), "{form:?} tells {half}");
            }
        }
        outs.push(out);
    }
    let v = outs[2].json();
    assert_eq!(outs[1].stdout.lines().count(), 1 + v["secrets"].as_array().unwrap().len());
    v
}

fn row<'v>(v: &'v Value, kind: &str) -> &'v Value {
    let rows = v["secrets"].as_array().unwrap();
    rows.iter().find(|row| row["kind"] == kind).unwrap_or_else(|| panic!("no {kind} in {v}"))
}

#[test]
fn each_kind_is_found_in_both_encodings_and_across_every_border() {
    for (kind, checked, text, secret) in planted() {
        let (narrow, wide) = (text.as_bytes(), wide(&text));
        let mut bytes = vec![0; 2 * TASK + 2 * WINDOW];
        let mut places = Vec::new();
        let mut put = |at: usize, what: &[u8], encoding: &'static str| {
            bytes[at..at + what.len()].copy_from_slice(what);
            places.push((at, encoding));
        };
        // In the midst, at an odd address; across a window's border, a task's, and that of two segments.
        put(0x1003, narrow, "utf8");
        put(0x21003, &wide, "utf16");
        put(WINDOW - 9, narrow, "utf8");
        put(2 * WINDOW - 9, &wide, "utf16");
        put(TASK - narrow.len() / 2, narrow, "utf8");
        put(TASK + WINDOW - wide.len() / 2, &wide, "utf16");
        put(2 * TASK - wide.len() / 4 * 2, &wide, "utf16");
        let cut = 2 * TASK + WINDOW;
        put(cut - narrow.len() / 2, narrow, "utf8");
        let (first, second) = bytes.split_at(cut);
        let file = core()
            .load(Load::at(BASE).flags(R | W).bytes(first))
            .load(Load::at(BASE + cut as u64).flags(R).bytes(second))
            .write();
        let v = asked(file.path().to_str().unwrap(), std::slice::from_ref(&secret));
        let row = row(&v, kind);
        assert_eq!(v["secrets"].as_array().unwrap().len(), 1, "{v}");
        let figures = [&row["count"], &row["checked"], &row["distinct"]].map(|n| n.as_u64().unwrap());
        let count = places.len() as u64;
        assert_eq!(figures, [count, if checked { count } else { 0 }, 1], "{kind}: {row}");
        assert_eq!(row["confidence"], if checked { "derived" } else { "heuristic" }, "{kind}");
        assert_eq!(row["regions"], serde_json::json!([{"kind": "AnonRW", "count": count}]), "{kind}");
        let first = &row["examples"][0];
        let (at, encoding) = places[0];
        // A connection string and a signature begin at their field.
        let begins = hex(&first["address"]) - BASE;
        assert!((at as u64..(at + text.len()) as u64).contains(&begins), "{kind}: {first}");
        assert_eq!((&first["encoding"], &first["kind"]), (&encoding.into(), &"AnonRW".into()), "{kind}");
        let command = format!("coremap whatis --bytes 64 {} CORE", first["address"].as_str().unwrap());
        assert_eq!(row["command"], command);
    }
}

#[test]
fn equal_ones_are_told_from_others_and_kinds_of_regions_are_counted() {
    let mail = |name: &str| format!("{name}.{}@firm.org\0", "planted");
    let text = [mail("jane"), mail("john"), mail("jane"), mail("JANE")].concat();
    let file = core()
        .load(Load::at(BASE).flags(R | W).bytes([text.as_bytes(), &[0; 4096]].concat()))
        .load(Load::at(BASE + (1 << 30)).flags(R).bytes([mail("jim").as_bytes(), &[0; 4096]].concat()))
        .write();
    let v = asked(file.path().to_str().unwrap(), &["planted@firm".to_owned()]);
    let row = row(&v, "email-address");
    assert_eq!((row["count"].as_u64(), row["distinct"].as_u64()), (Some(5), Some(3)), "{row}");
    let regions = serde_json::json!([{"kind": "AnonRW", "count": 4}, {"kind": "AnonRO", "count": 1}]);
    assert_eq!(row["regions"], regions);
    // Two of the first kind of region, one of the second.
    assert_eq!(row["examples"].as_array().unwrap().len(), 3);
}

#[test]
fn arguments_in_the_notes_are_looked_at() {
    let word = format!("a1{}", letters(14, 21));
    let args = format!("app --{}={word} http://me:{word}@host/", "password");
    let file = core().note(notes::prpsinfo(77, "app", &args)).load(Load::at(BASE).bytes(vec![0; 4096])).write();
    let v = asked(file.path().to_str().unwrap(), std::slice::from_ref(&word));
    for kind in ["named-secret", "url-password"] {
        let row = row(&v, kind);
        assert_eq!(row["regions"], serde_json::json!([{"kind": null, "count": 1}]), "{row}");
        assert!(row["examples"][0]["detail"].as_str().unwrap().contains("NT_PRPSINFO"), "{row}");
        assert_eq!(
            (&row["examples"][0]["address"], &row["command"]),
            (&Value::Null, &"coremap info --show-data CORE".into())
        );
    }
    assert_eq!((row(&v, "argument")["count"].as_u64(), &v["start_known"]), (Some(2), &false.into()));
}

#[test]
fn nothing_found_is_status_1_and_a_core_that_is_cut_off_status_4() {
    let zeros = core().load(Load::at(BASE).bytes(vec![0; 1 << 16]));
    let file = zeros.write();
    let out = run(["scan-secrets", file.path().to_str().unwrap()]);
    assert!(out.exits(1).stdout.contains("0 matches"), "{}", out.stdout);
    let card = ["4111", "1111", "1111", "1111"].concat();
    let cut = core().load(Load::at(BASE).bytes(format!("{card}\0")).memsz(1 << 20).filesz(1 << 20)).write();
    let out = run(["scan-secrets", "--json", cut.path().to_str().unwrap()]);
    let v = out.exits(4).json();
    assert_eq!((row(&v, "card-number")["count"].as_u64(), &v["core"]["truncated"]), (Some(1), &true.into()));
    assert!(!format!("{}{}", out.stdout, out.stderr).contains(&card));
}

#[test]
fn the_environment_is_counted_and_not_told() {
    // What `info` says of the same process.
    let dir = unpacked(&[GLIBC]);
    let path = dir.join(GLIBC);
    let core = path.to_str().unwrap();
    let info = run(["info", "--json", "--show-data", core]).json();
    let environment = info["process"]["environment"].as_array().unwrap();
    let v = run(["scan-secrets", "--json", core]).exits(0).json();
    assert_eq!(row(&v, "environment")["count"].as_u64(), Some(environment.len() as u64));
    assert_eq!((&row(&v, "environment")["confidence"], &v["start_known"]), (&"exact".into(), &true.into()));
    for entry in environment {
        assert!(!v.to_string().contains(entry.as_str().unwrap()), "{entry}");
    }
    let arguments = info["process"]["arguments"].as_u64();
    let rows = v["secrets"].as_array().unwrap();
    let told = rows.iter().find(|row| row["kind"] == "argument").map_or(0, |row| row["count"].as_u64().unwrap());
    assert_eq!(Some(told), arguments);
}
