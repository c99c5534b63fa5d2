/* Prints what the script of a report page draws, as markup: node page_text.js PAGE. Of a browser's document it has as
 * much as the page uses. An exception of the script ends it with code 1. */
"use strict";
const page = require("fs").readFileSync(process.argv[2], "utf8");

class Element {
    constructor(name) {
        Object.assign(this, { name, attributes: {}, nodes: [], style: {} });
    }
    get children() {
        return this.nodes.filter(node => node instanceof Element);
    }
    setAttribute(name, value) {
        this.attributes[name] = String(value);
    }
    append(node) {
        this.nodes.push(node instanceof Element ? node : String(node));
    }
    addEventListener() {}
}

const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "\"": "&quot;" };
const escaped = text => text.replace(/[&<>"]/g, letter => escapes[letter]);

function markup(node) {
    if (!(node instanceof Element))
        return escaped(node);
    const style = Object.entries(node.style).map(([name, value]) => `${name}:${value}`).join(";");
    const attributes = Object.entries({ ...node.attributes, ...(style !== "" ? { style } : {}) });
    const isBlock = !["b", "span", "title", "text", "th", "td"].includes(node.name);
    return `<${node.name}${attributes.map(([name, value]) => ` ${name}="${escaped(value)}"`).join("")}>` +
        `${node.nodes.map(markup).join("")}</${node.name}>${isBlock ? "\n" : ""}`;
}

const scripts = [...page.matchAll(/<script([^>]*)>\n(.*?)\n<\/script>/gs)];
const data = scripts.find(([, attributes]) => attributes.includes('id="data"'))[2];
global.document = {
    body: new Element("body"),
    createElement: name => new Element(name),
    createElementNS: (space, name) => new Element(name),
    getElementById: () => ({ textContent: data }),
};
new Function(scripts.find(([, attributes]) => attributes === "")[2])();
console.log(`<title>${escaped(document.title)}</title>`);
console.log(markup(document.body));
