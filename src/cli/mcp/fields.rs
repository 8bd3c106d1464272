//! Lists the fields of a command's answer, from its JSON Schema.

use serde_json::{Value, json};

/// Maximum depth of fields within fields. Some rows contain rows of their own type.
const MAX_DEPTH: usize = 8;

/// Maximum number of fields listed.
const MAX_FIELDS: usize = 2000;

/// Lists the fields of an answer: path, type and meaning.
pub(super) fn of(schema: &Value) -> Value {
    let mut fields = Vec::new();
    let mut within = Vec::new();
    visit(schema, schema, "", &mut within, &mut fields);
    json!({ "command": schema["title"], "fields": fields })
}

/// Returns the definition to which a schema refers, with its name.
fn resolved<'s>(whole: &'s Value, schema: &'s Value) -> (Option<&'s str>, &'s Value) {
    let name = schema["$ref"].as_str().and_then(|at| at.strip_prefix("#/$defs/"));
    name.and_then(|name| Some((Some(name), whole["$defs"].get(name)?))).unwrap_or((None, schema))
}

fn visit<'s>(whole: &'s Value, schema: &'s Value, path: &str, within: &mut Vec<&'s str>, fields: &mut Vec<Value>) {
    let (name, schema) = resolved(whole, schema);
    // A row type that contains itself is listed once.
    if within.len() >= MAX_DEPTH || name.is_some_and(|name| within.contains(&name)) {
        return;
    }
    within.extend(name);
    for (field, of) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}/{field}");
        let about = of["description"].as_str().or_else(|| resolved(whole, of).1["description"].as_str());
        if fields.len() < MAX_FIELDS && !fields.iter().any(|known| known["at"] == path) {
            fields.push(json!({ "at": path, "type": type_of(whole, of), "about": about }));
        }
        visit(whole, of, &path, within, fields);
    }
    if !schema["items"].is_null() {
        visit(whole, &schema["items"], &format!("{path}/*"), within, fields);
    }
    for list in ["anyOf", "oneOf", "allOf"] {
        for of in schema[list].as_array().into_iter().flatten() {
            visit(whole, of, path, within, fields);
        }
    }
    if name.is_some() {
        within.pop();
    }
}

/// Type of a field in words.
fn type_of(whole: &Value, schema: &Value) -> String {
    let (_, schema) = resolved(whole, schema);
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | ");
    }
    if let Some(word) = schema["const"].as_str() {
        return word.to_owned();
    }
    match &schema["type"] {
        Value::String(one) => one.clone(),
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
        _ => {
            let of = ["anyOf", "oneOf"].into_iter().find_map(|list| schema[list].as_array());
            let mut types: Vec<String> = of.into_iter().flatten().map(|of| type_of(whole, of)).collect();
            types.dedup();
            types.join(" | ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coremap::commands::schema;

    #[test]
    fn every_command_has_its_fields_with_their_meaning() {
        for command in schema::commands() {
            let fields = of(&schema::of(command).unwrap_or_default());
            let fields = fields["fields"].as_array().cloned().unwrap_or_default();
            assert!(fields.len() > 10, "{command}");
            let mute: Vec<_> = fields.iter().filter(|field| field["about"].is_null()).collect();
            assert!(mute.len() <= 2, "{command}: {mute:?}");
        }
    }

    #[test]
    fn fields_of_rows_are_listed_where_they_are() {
        let fields = of(&schema::of("heapstat").unwrap_or_default());
        let at = |at: &str| fields["fields"].as_array().and_then(|f| f.iter().find(|f| f["at"] == at)).cloned();
        assert_eq!(at("/types/*/size").map(|field| field["type"].clone()), Some(json!("integer")));
        assert!(at("/core/arch").is_some_and(|field| field["type"].as_str().is_some_and(|of| of.contains("x86_64"))));
    }
}
