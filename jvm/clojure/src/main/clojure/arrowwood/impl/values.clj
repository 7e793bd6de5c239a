(ns arrowwood.impl.values
  "Names and values between Java and Clojure."
  {:no-doc true}
  (:require
   [arrowwood.impl.arguments :refer [in-order known shown wrong]]
   [clojure.string :as str])
  (:import
   (clojure.lang BigInt MapEntry PersistentArrayMap Ratio)
   (dev.arrowwood Field Interval Member Row Schema Type)
   (java.util Date HashMap List Map Map$Entry)))

(set! *warn-on-reflection* true)

;; ---- names ----

(defn text
  "The name of a column, which may be a keyword or a string."
  ^String [column]
  (cond
    (string? column) column
    ;; A slash doesn't divide the name of a column.
    (keyword? column) (subs (str column) 1)
    (symbol? column) (str column)
    :else (throw (wrong "columns are named by keywords or strings, not " (shown column)))))

(defn texts ^"[Ljava.lang.String;" [columns]
  (into-array String (map text columns)))

(defn keys-of
  "The names of fields as keywords, which are the keys of rows."
  ^objects [fields]
  (let [names (map #(.name ^Field %) fields)]
    (when-let [twice (first (keep (fn [[name times]] (when (< 1 (long times)) name)) (frequencies names)))]
      (throw (wrong "several columns or members are called '" twice
                    "', so that they can't be keys of a map: select columns by their indexes")))
    (object-array (map keyword names))))

;; ---- from Java ----

(declare value)

(defn- row-map [^objects keys ^objects cells]
  (let [entries (object-array (* 2 (alength keys)))]
    (dotimes [i (alength keys)]
      (aset entries (* 2 i) (aget keys i))
      (aset entries (inc (* 2 i)) (value (aget cells i))))
    (PersistentArrayMap. entries)))

(defn row
  "A row as a map, in the order of the columns."
  [keys ^Row row]
  (row-map keys (.toArray row)))

(defn value
  "A value as Clojure has it: big integers are BigInt, lists vectors, structs maps, maps vectors of entries (keys may
  occur twice), members of unions entries, intervals maps."
  [x]
  (cond
    (nil? x) nil
    (string? x) x
    (instance? BigInteger x) (bigint x)
    (number? x) x
    (instance? Row x) (row (keys-of (.fields ^Row x)) x)
    (instance? List x) (mapv value x)
    (instance? Map$Entry x) (MapEntry/create (value (key x)) (value (val x)))
    (instance? Member x) (MapEntry/create (keyword (.name ^Member x)) (value (.value ^Member x)))
    (instance? Interval x) {:months (.months ^Interval x) :days (.days ^Interval x)
                            :nanoseconds (.nanoseconds ^Interval x)}
    :else x))

;; ---- to Java ----

(defn object
  "A value as Java has it."
  [x]
  (cond
    (instance? BigInt x) (.toBigInteger ^BigInt x)
    (instance? Ratio x) (double x)
    (instance? Date x) (.toInstant ^Date x)
    (keyword? x) (throw (wrong "a keyword is no value: give its name, as by (name " (shown x) ")"))
    (and (map? x) (contains? x :months))
    (let [{:keys [months days nanoseconds]} (known "an interval" [:months :days :nanoseconds] x)]
      (Interval. (int months) (int (or days 0)) (long (or nanoseconds 0))))
    :else x))

(defn java-row
  "A row, which is a map, as Java takes it."
  ^Map [row]
  (let [^Map cells (HashMap.)]
    (run! (fn [[column x]] (.put cells (text column) (object x))) row)
    cells))

;; ---- schemas ----

(defn field-map [^Field field]
  (cond-> {:name (keyword (.name field)) :type (str (.type field))}
    (not (.nullable field)) (assoc :nullable false)
    (seq (.metadata field)) (assoc :metadata (into {} (.metadata field)))))

(defn- type-of ^Type [type]
  (if (instance? Type type)
    type
    (.type ^Field (first (.fields (Schema/parse (str "c: " (text type))))))))

(defn- field ^Field [given]
  (if (map? given)
    (let [{:keys [name type nullable metadata]} (known "a column of a schema" [:name :type :nullable :metadata] given)]
      (Field. (text name) (type-of type) (not (false? nullable)) (into {} metadata)))
    (let [[name type] given
          [_ plain not-null] (re-matches #"(.*?)( not null)?" (text type))]
      (Field. (text name) (type-of plain) (nil? not-null) {}))))

(defn schema
  "The schema of text, of fields as maps, or of pairs of names and types."
  ^Schema [given]
  (cond
    (instance? Schema given) given
    (string? given) (Schema/parse given)
    :else (Schema/of ^"[Ldev.arrowwood.Field;" (into-array Field (map field (in-order "a schema" given))))))

(defn keyword-of
  "The keyword that names a constant of an enum."
  [^Enum constant]
  (keyword (str/replace (str/lower-case (.name constant)) "_" "-")))

(defn enum
  "The constant of an enum that a keyword names."
  [^Class class key]
  (let [constants (.getEnumConstants class)]
    (or (first (filter #(= key (keyword-of %)) constants))
        (throw (wrong (shown key) " is none of " (str/join ", " (map keyword-of constants)))))))
