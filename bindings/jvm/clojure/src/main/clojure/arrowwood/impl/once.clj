(ns arrowwood.impl.once
  "Defines types that survive a reload."
  {:no-doc true}
  (:require
   [clojure.string :as str]))

(set! *warn-on-reflection* true)

(defonce ^:private sources (atom {}))

(defn remember-source
  "Remembers the source of a defined type."
  [name source]
  (swap! sources assoc name source)
  nil)

(defn- source-of
  "Prints types as text, equal for equal sources."
  [& forms]
  (binding [*print-length* nil *print-level* nil *print-meta* true *print-dup* false *print-readably* true]
    ;; The reader gives the arguments of #() new numbers each time.
    (str/replace (pr-str forms) #"__\d+#" "")))

(defmacro deftype-once
  "As `deftype`, but keeps a type that was defined from the same source. Otherwise `:reload-all` of a namespace that
  uses it would define another type with its name, and open datasets would not be instances of it."
  [name fields & body]
  (let [class-name (symbol (str (namespace-munge *ns*) "." name))
        source (source-of name fields body)]
    (if (and (not *compile-files*) (= source (@sources class-name)))
      `(import '~class-name)
      `(do (deftype ~name ~fields ~@body)
           (remember-source '~class-name ~source)))))
