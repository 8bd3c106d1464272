//! Tests of each kind, with genuine examples and lookalikes. They are assembled here, so that no source file has a
//! whole one.

use data_encoding::{BASE64, BASE64URL_NOPAD};

use crate::search::secrets::find::Finder;
use crate::words::SecretKind::{self, *};

type Fallible = Result<(), Box<dyn std::error::Error>>;

/// Kinds found in a text, and whether each was checked.
fn found(text: &str) -> Vec<(SecretKind, bool)> {
    let finder = Finder::new();
    assert!(finder.is_ok(), "the words make no automaton");
    finder.iter().flat_map(|f| f.find(text.as_bytes())).map(|f| (f.kind, f.checked)).collect()
}

/// Returns pseudo-random characters out of `of`.
fn random(length: usize, of: &str) -> String {
    let of: Vec<char> = of.chars().collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        of.get((state >> 33) as usize % of.len()).copied().unwrap_or('0')
    };
    (0..length).map(|_| next()).collect()
}

const LETTERS: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const CAPITALS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn one(text: &str, kind: SecretKind, checked: bool) {
    for around in [format!("{text}\n"), format!("before it \"{text}\" behind"), format!("x = {text} ")] {
        assert_eq!(found(&around), [(kind, checked)], "{around}");
    }
}

fn none(text: &str) {
    assert_eq!(found(text), [], "{text}");
}

fn block(label: &str, body: &str) -> String {
    format!("-----{} {label}-----\n{body}\n-----{} {label}-----", "BEGIN", "END")
}

#[test]
fn private_keys() {
    let body = BASE64.encode(&[&[0x30, 0x82], random(400, LETTERS).as_bytes()].concat());
    let lines = |end: &str| {
        let lines: Vec<&[u8]> = body.as_bytes().chunks(64).collect();
        lines.iter().map(|l| String::from_utf8_lossy(l).into_owned()).collect::<Vec<_>>().join(end)
    };
    let label = |what: &str| format!("{what}PRIVATE {}", "KEY");
    for what in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "] {
        one(&block(&label(what), &lines("\n")), PrivateKey, true);
        one(&block(&label(what), &lines("\r\n")), PrivateKey, true);
    }
    let escaped = block(&label("RSA "), &lines("\\n")).replace('\n', "\\n");
    one(&escaped, PrivateKey, true);
    let headers = format!("Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0123456789ABCDEF\n\n{}", lines("\n"));
    one(&block(&label("RSA "), &headers), PrivateKey, true);
    let whole = block(&label(""), &lines("\n"));
    assert_eq!(found(&whole[..300]), [(PrivateKey, false)], "cut off");
    none(&whole[..60]);
    none(&block(&label(""), ""));
    none(&block("CERTIFICATE", &lines("\n")));
    none(&block(&label("").replace("PRIVATE", "PUBLIC"), &lines("\n")));
    assert_eq!(found(&format!("{whole}\n{whole}")).len(), 2);
}

fn jwt(header: &str) -> String {
    let part = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
    [part(header), part("{\"sub\":\"1\"}"), random(43, LETTERS)].join(".")
}

#[test]
fn json_web_tokens() {
    let token = jwt("{\"alg\":\"HS256\",\"typ\":\"JWT\"}");
    one(&token, Jwt, true);
    one(&format!("Authorization: Bearer {token}"), Jwt, true);
    one(&format!("Cookie: session={token}"), Jwt, true);
    let parts: Vec<&str> = token.split('.').collect();
    let encrypted = jwt("{\"alg\":\"dir\",\"enc\":\"A256GCM\"}");
    one(&format!("{encrypted}.{}.{}", random(30, LETTERS), random(22, LETTERS)), Jwt, true);
    none(&parts[..2].join("."));
    none(&jwt("{\"kid\":\"HS256\",\"typ\":\"JWT\"}"));
    none(&jwt("{\"alg\":\"HS256\",\"typ\":"));
    none(&format!("a{token}"));
    none(&format!("{}.{}.short", parts[0], parts[1]));
}

#[test]
fn tokens_of_services() {
    let aws = format!("AK{}{}", "IA", random(16, CAPITALS));
    one(&aws, AwsAccessKey, false);
    for near in [format!("X{aws}"), format!("{aws}Z"), aws.to_lowercase(), aws[..19].to_owned()] {
        none(&near);
    }
    none(&format!("AK{}IOSFODNN7EXAMPLE", "IA"));
    let random36 = random(36, LETTERS);
    one(&format!("gh{}_{random36}", 'p'), GithubToken, false);
    one(&format!("np{}_{random36}", 'm'), NpmToken, false);
    none(&format!("gh{}_{}", 'p', &random36[1..]));
    none(&format!("gh{}_{random36}9", 'p'));
    none(&format!("gh{}_{}", 'p', "a".repeat(36)));
    one(&format!("github_{}_{}_{}", "pat", random(22, LETTERS), random(59, LETTERS)), GithubToken, false);
    one(&format!("gl{}-{}", "pat", random(20, LETTERS)), GitlabToken, false);
    none(&format!("gl{}-{}", "pat", random(12, LETTERS)));
    one(&format!("xo{}-123456789012-1234567890123-{}", "xb", random(24, LETTERS)), SlackToken, false);
    none(&format!("xo{}-{}", "xb", random(24, LETTERS)));
    one(&format!("sk_{}_{}", "live", random(24, LETTERS)), StripeKey, false);
    none(&format!("sk_{}_{}", "test", random(24, LETTERS)));
    one(&format!("AI{}{}", "za", random(35, LETTERS)), GoogleApiKey, false);
    none(&format!("AI{}{}", "za", random(34, LETTERS)));
    one(&format!("py{}-AgEIcHlwaS5vcmc{}", "pi", random(80, LETTERS)), PypiToken, false);
    none(&format!("py{}-{}", "pi", random(80, LETTERS)));
}

#[test]
fn a_token_with_its_checksum_is_checked() {
    // Computed in Python: zlib.crc32(b"0123456789abcdefghijABCDEFGHIJ") = 0xced364a5, in base 62 with the digits
    // first.
    let token = format!("gh{}_0123456789abcdefghijABCDEFGHIJ{}", 's', "3mpbCX");
    one(&token, GithubToken, true);
    one(&token.replace("abcdef", "abcdeg"), GithubToken, false);
}

#[test]
fn azure() {
    let key = BASE64.encode(random(64, LETTERS).as_bytes());
    let text = format!("DefaultEndpointsProtocol=https;AccountName=some;Account{}={key};EndpointSuffix=x", "Key");
    assert_eq!(found(&text), [(AzureStorageKey, true)]);
    none(&text.replace(&key, &key[..40]));
    let signature = BASE64.encode(random(32, LETTERS).as_bytes()).replace('=', "%3D");
    let url = format!("https://a.blob.core.windows.net/c?sv=2022-11-02&se=2030-01-01&sp=r&{}={signature}", "sig");
    assert_eq!(found(&url), [(AzureSas, true)]);
    none(&format!("https://a.b/c?x=1&{}={signature}", "sig"));
    none(&url.replace("%3D", ""));
}

#[test]
fn passwords_by_their_place() {
    let word = random(9, LETTERS);
    for text in [
        format!("Server=tcp:db.local,1433;Database=shop;User ID=sa;{}={word};Encrypt=True", "Password"),
        format!("host=db port=5432 user=app {}={word} dbname=shop", "password"),
        format!("{}={word};Data Source=db", "Pwd"),
    ] {
        assert_eq!(found(&text), [(ConnectionString, false)], "{text}");
        none(&text.replace(&word, "${PW}"));
        none(&text.replace(&word, "******"));
    }
    for scheme in ["postgres", "https", "amqp+ssl", "redis"] {
        one(&format!("{scheme}://app:{word}@db.local:5432/shop"), UrlPassword, false);
        none(&format!("{scheme}://db.local:5432/shop@x"));
        none(&format!("{scheme}://app@db.local:5432/shop"));
        none(&format!("{scheme}://app:{{password}}@db.local"));
    }
    let pair = BASE64.encode(format!("app:{word}").as_bytes());
    one(&format!("Authorization: {} {pair}", "Basic"), HttpCredentials, true);
    none("Basic concepts of it");
    let bearer = random(40, LETTERS);
    one(&format!("Authorization: {} {bearer}", "Bearer"), HttpCredentials, false);
    none(&format!("{} authentication is used here", "Bearer"));
    none(&format!("{} realm=\"something-else-here-1\"", "Bearer"));
    one(&format!("Set-Cookie: .AspNetCore.Session={bearer}; path=/; httponly"), Cookie, false);
    none("Set-Cookie: name=value; path=/");
}

#[test]
fn values_that_a_name_says_are_secret() {
    let (chosen, given) = (random(11, LETTERS), random(32, LETTERS));
    for text in [
        format!("DB_{}={chosen}\n", "PASSWORD"),
        format!("DB_{}=letmeinplease\n", "PASSWORD"),
        format!("{{\"{}\":\"{chosen}\",\"x\":1}}", "password"),
        format!("{{\\\"{}\\\": \\\"{chosen}\\\"}}", "passwd"),
        format!("client_{}='{given}'", "secret"),
        format!("x-api-{}: {given}", "key"),
        format!("?access_{}={given}&state=1", "token"),
        format!("AWS_SECRET_ACCESS_{}={}/{}", "KEY", &given[..20], &given[..19]),
    ] {
        assert_eq!(found(&text), [(NamedSecret, false)], "{text}");
    }
    for text in [
        "password: String, ",
        "token = next_token(); ",
        "if (password == other1) ",
        "password=%s, user=%s",
        "PASSWORD=${DB_PASSWORD}\n",
        "PublicKeyToken=b77a5c561934e089",
        "Token=\"b77a5c561934e089\"",
        "password: must have 8 characters",
        "Enter password: ",
        "DialogToken: DOT11_DIALOG_TOKEN, ",
        "private_key: ed25519.Ed25519PrivateKey, ",
        "secret=null;",
        "\"password\":\"********\"",
        "tokenize=abcdefgh12345678",
        "api_key = config.get(\"api_key\")",
        "cancellationToken: abcdef1234567890abcdef",
    ] {
        none(text);
    }
}

/// Appends the check digit of ISO/IEC 7812-1.
fn with_check_digit(digits: &str) -> String {
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, d)| {
            let doubled = u32::from(d - b'0') * if i % 2 == 0 { 2 } else { 1 };
            if doubled > 9 { doubled - 9 } else { doubled }
        })
        .sum();
    format!("{digits}{}", (10 - sum % 10) % 10)
}

#[test]
fn cards() {
    for (digits, groups) in [
        ("411111222233334", &[4, 4, 4, 4][..]),
        ("510510510510510", &[4, 4, 4, 4]),
        ("222300004841001", &[4, 4, 4, 4]),
        ("37828224631000", &[4, 6, 5]),
        ("3056930902590", &[4, 6, 4]),
        ("601111111111111", &[4, 4, 4, 4]),
        ("413712345678901234", &[4, 4, 4, 4, 3]),
    ] {
        let number = with_check_digit(digits);
        one(&number, CardNumber, true);
        for between in ["-", " "] {
            let mut rest = number.as_str();
            let mut parts = Vec::new();
            for group in groups {
                let (part, behind) = rest.split_at(*group);
                parts.push(part);
                rest = behind;
            }
            one(&parts.join(between), CardNumber, true);
        }
        let last = number.as_bytes().last().map_or(0, |d| d - b'0');
        none(&format!("{digits}{}", (last + 1) % 10));
        for near in [format!("1{number}"), format!("{number}7"), format!("0x{number}"), format!("{number}f")] {
            none(&near);
        }
        none(&format!("0.{number}"));
        none(&format!("{number}.5"));
    }
    none(&with_check_digit("911111222233334"));
    none(&format!("5413 {} 5418", "5414 5415 5416 5417"));
    none("2026-07-14 10:15:00 1784024100000 1784024100000000");
}

#[test]
fn accounts() {
    // Examples in the registry.
    for number in [["DE89", "370400440532013000"], ["GB29", "NWBK60161331926819"], ["NO93", "86011117947"]] {
        let number = number.concat();
        one(&number, Iban, true);
        let groups: Vec<&str> =
            (0..number.len()).step_by(4).filter_map(|i| number.get(i..(i + 4).min(number.len()))).collect();
        one(&groups.join(" "), Iban, true);
        none(&number.replacen('9', "8", 1));
        none(&format!("{number}0"));
        none(&format!("A{number}"));
        none(&number.to_lowercase());
    }
    none(&format!("XX{}", "89370400440532013000"));
}

#[test]
fn addresses_of_mail() {
    for text in ["jane.doe+news@mail.company.org", "j@gmx.de.", "<o'brien@firm.co.uk>"] {
        assert_eq!(found(&format!("to: {text} ")), [(EmailAddress, false)], "{text}");
    }
    for text in [
        "memcpy@GLIBC_2.14",
        "memcpy@@GLIBC_2.2.5",
        "left-pad@1.3.0",
        "getty@tty1.service",
        "icon@2x.png",
        "git@github.com:some/one.git",
        "jane@example.com",
        "@decorator.com",
        "jane@localhost",
        "a @ b.com",
    ] {
        none(text);
    }
}

#[test]
fn of_two_that_overlap_the_first_kind_is_told() -> Fallible {
    let number = with_check_digit("411111222233334");
    let text = format!("{}=\"{number}\" mailto:a.person@firm.com https://bob:pa55word@firm.com/x", "api_key");
    let kinds: Vec<SecretKind> = found(&text).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [CardNumber, EmailAddress, UrlPassword]);
    // Equal secrets have one normal form, however they are written.
    let finder = Finder::new()?;
    let normal = |text: &str| {
        let text = text.as_bytes();
        finder.find(text).first().map(|f| f.normal(text))
    };
    assert_eq!(
        normal(&number),
        normal(&number.as_bytes().chunks(4).map(String::from_utf8_lossy).collect::<Vec<_>>().join("-"))
    );
    assert_eq!(normal("Jane@Firm.com"), normal("jane@firm.com"));
    assert_ne!(normal("Jane@Firm.com"), normal("john@firm.com"));
    Ok(())
}
